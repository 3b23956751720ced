<?php
// Each snippet declares the same function, so each has a process.
$loaded = [];
foreach (file('php://stdin', FILE_IGNORE_NEW_LINES) as $line) {
    $fields = explode("\t", $line);
    [$name, $body, $secrets] = array_splice($fields, 0, 3);
    if (!$loaded) {
        require __DIR__ . "/$name.php";
        $loaded = true;
    }
    $server = [];
    foreach (array_chunk($fields, 2) as [$field, $value]) {
        $server['HTTP_' . strtoupper(strtr($field, '-', '_'))] = hex2bin($value);
    }
    try {
        $secrets = array_map('hex2bin', array_slice(explode('.', $secrets), 1));
        echo verify_webhook($server, hex2bin($body), $secrets) ? 'true' : 'false', "\n";
    } catch (Throwable $error) {
        echo get_class($error), ': ', $error->getMessage(), "\n";
    }
}
