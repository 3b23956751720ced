package doctor

// Keyring describes the keys that encrypt the secrets of a store, and whether they decrypt the
// stored values.
type Keyring struct {
	Where      string // a file, a setting or the database
	InDatabase bool
	Exposed    bool  // other users may read the file, so it is refused; Err has the reason
	Keys       int   // 0 without Err: no keys yet, the first start creates one
	Values     int   // encrypted values that were read
	Unreadable int   // how many of Values are damaged
	Err        error // why the keys cannot be read, or do not decrypt the values
	Unchecked  error // why the values could not be read; nil: they were read, or there are none
}

// Check judges the keys.
func (k Keyring) Check() Check {
	const restore = "restore the key file from its copy, or name the file that has the keys with --secrets-key-file (chmod 600)"
	keys, values := count(k.Keys, "key", "keys"), count(k.Values, "encrypted value", "encrypted values")
	switch {
	case k.Exposed:
		return Failure(Keys, "%s", k.Err).
			Change("chmod 600 %s; if somebody may have read it, make new keys then: postrider secrets rotate-key", k.Where)
	case k.Err != nil:
		return Failure(Keys, "%s", k.Err).Change(restore)
	case k.Keys == 0:
		return Okay(Keys, "there are no keys in %s yet; the first start makes them", k.Where)
	case k.Unreadable > 0:
		return Failure(Keys, "%d of %s cannot be decrypted: damaged; the log of a server names them at its start", k.Unreadable, values).
			Change("give those endpoints new secrets: postrider endpoints rotate")
	case k.Unchecked != nil:
		return Warning(Keys, "%s in %s; the stored values could not be read: %s", keys, k.Where, k.Unchecked).
			Change("mend what the other checks of the store name, and run doctor again")
	case k.InDatabase:
		return Warning(Keys, "%s in the database, beside %s: who has a copy of the database has the secrets", keys, values).
			Change("postrider secrets export-keys FILE, and start every server with --secrets-key-file FILE")
	}
	return Okay(Keys, "%s in %s; %s decrypted", keys, k.Where, values)
}
