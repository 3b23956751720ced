package config

// Logged is exported for a test, which compares it with the packages that write a log.
var Logged = logged
