package app

// What tests of this package need besides its interface.
var (
	Logged = logged
	LogOf  = logOf
)
