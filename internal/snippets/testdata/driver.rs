use std::collections::HashMap;
use std::io::BufRead;

fn main() {
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let fields: Vec<&str> = line.split('\t').collect();
        let headers: HashMap<String, String> =
            fields[3..].chunks(2).map(|field| (field[0].to_lowercase(), text(field[1]))).collect();
        let header = |name: &str| headers.get(&name.to_lowercase()).cloned();
        let secrets: Vec<String> = fields[2].split('.').skip(1).map(text).collect();
        let secrets: Vec<&str> = secrets.iter().map(String::as_str).collect();
        println!("{}", run(fields[0], &header, &bytes(fields[1]), &secrets));
    }
}

fn bytes(digits: &str) -> Vec<u8> {
    (0..digits.len()).step_by(2).map(|i| u8::from_str_radix(&digits[i..i + 2], 16).unwrap()).collect()
}

fn text(digits: &str) -> String {
    String::from_utf8(bytes(digits)).unwrap()
}
