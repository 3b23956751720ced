package config

// Logged is for a test, which compares it with the packages that have a log.
var Logged = logged
