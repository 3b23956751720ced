package outbox

import "time"

// Age makes all rejections of a table of the producer's own older.
func (db *DB) Age(by time.Duration) {
	db.own.mu.Lock()
	defer db.own.mu.Unlock()
	for key, at := range db.own.refused {
		db.own.refused[key] = at.Add(-by)
	}
}
