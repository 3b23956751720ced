package sqlstore

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"time"
)

// The part of PostgreSQL's language that the statements of this package are written in has
// in SQLite
//
//   - no type after ::, which PostgreSQL needs to know the type of an argument,
//   - no "for update", with or without "skip locked": there is one writer,
//   - microseconds for a duration, "@wait * interval '1 microsecond'",
//   - "indexed by an_index" for a comment that says so,
//   - max and min for greatest and least,
//   - an argument @wall for now(), which the store adds: the time of day of the transaction, and
//   - a JSON array for "= any(@list)" and for the rows of "unnest(@list) n(value)".
//
// All else is the same in both. What only one of them has, such as a select without a column, is
// not used.
var (
	listOfIDs   = regexp.MustCompile(`= any\((@\w+)::uuid\[\]\)`)
	listOfTexts = regexp.MustCompile(`= any\((@\w+)::text\[\]\)`)
	rowsOfTexts = regexp.MustCompile(`unnest\((@\w+)::text\[\]\) (\w+)\(value\)`)
	cast        = regexp.MustCompile(`::\w+(\[\])?`)
	forced      = regexp.MustCompile(`/\* (indexed by \w+) \*/`)
	functions   = strings.NewReplacer("greatest(", "max(", "least(", "min(", "now()", "@wall",
		"for update skip locked", "", "for update", "", " * interval '1 microsecond'", "")
)

// SQLite returns a statement in SQLite's language.
func SQLite(statement string) string {
	statement = listOfIDs.ReplaceAllString(statement, `in (select unhex(value) from json_each($1))`)
	statement = listOfTexts.ReplaceAllString(statement, `in (select value from json_each($1))`)
	statement = rowsOfTexts.ReplaceAllString(statement, `json_each($1) $2`)
	statement = forced.ReplaceAllString(statement, `$1`)
	return functions.Replace(cast.ReplaceAllString(statement, ""))
}

// An id is 16 bytes.
var (
	typeOfID       = reflect.TypeFor[[16]byte]()
	typeOfIDs      = reflect.TypeFor[[][16]byte]()
	typeOfTime     = reflect.TypeFor[time.Time]()
	typeOfDuration = reflect.TypeFor[time.Duration]()
)

// Plain returns an argument as one of nil, string, int64, float64, bool, []byte, [16]byte,
// time.Time, []string, [][16]byte or map[string]string. A zero time is nil, and a duration is
// its microseconds.
func Plain(argument any) any {
	v := reflect.ValueOf(argument)
	if !v.IsValid() {
		return nil
	}
	switch t := v.Type(); {
	case t == typeOfTime:
		if v.IsZero() {
			return nil
		}
		return argument
	case v.Kind() == reflect.String:
		return v.String()
	case t == typeOfDuration:
		return v.Int() / int64(time.Microsecond)
	case v.CanInt():
		return v.Int()
	case v.CanUint():
		return int64(v.Uint())
	case v.CanFloat():
		return v.Float()
	case v.Kind() == reflect.Bool:
		return v.Bool()
	case t.ConvertibleTo(typeOfID) && v.Kind() == reflect.Array:
		return v.Convert(typeOfID).Interface()
	case v.Kind() == reflect.Array: // a hash
		hash := make([]byte, v.Len())
		reflect.Copy(reflect.ValueOf(hash), v)
		return hash
	case v.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return v.Bytes()
	case (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.IsNil():
		return nil
	case v.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String:
		texts := make([]string, v.Len())
		for i := range texts {
			texts[i] = v.Index(i).String()
		}
		return texts
	case v.Kind() == reflect.Slice && t.Elem().ConvertibleTo(typeOfID):
		ids := reflect.MakeSlice(typeOfIDs, 0, v.Len())
		for i := range v.Len() {
			ids = reflect.Append(ids, v.Index(i).Convert(typeOfID))
		}
		return ids.Interface()
	}
	return argument
}

// ForSQLite returns an argument as SQLite has it; see [Args].
func ForSQLite(argument any) (any, error) {
	switch plain := Plain(argument).(type) {
	case [16]byte:
		return plain[:], nil
	case time.Time:
		return plain.UnixMicro(), nil
	case [][16]byte:
		digits := make([]string, len(plain))
		for i, id := range plain {
			digits[i] = hex.EncodeToString(id[:])
		}
		return asJSON(digits)
	case []string, map[string]string:
		return asJSON(plain)
	default:
		return plain, nil
	}
}

func asJSON(value any) (any, error) {
	document, err := json.Marshal(value)
	return string(document), err
}

// FromSQLite is a column of SQLite that is read into what a pointer points to.
type FromSQLite struct {
	Into any
}

// Scan stores what was read. A column of another type than the pointer's is an error.
func (c FromSQLite) Scan(column any) error {
	into := reflect.ValueOf(c.Into).Elem()
	into.SetZero()
	switch column := column.(type) {
	case nil:
		return nil
	case int64:
		switch {
		case into.Type() == typeOfTime:
			into.Set(reflect.ValueOf(time.UnixMicro(column).UTC()))
			return nil
		case SetNumber(into, column):
			return nil
		case into.Kind() == reflect.Bool:
			into.SetBool(column != 0)
			return nil
		}
	case float64:
		if into.CanFloat() {
			into.SetFloat(column)
			return nil
		}
	case string:
		switch {
		case into.Kind() == reflect.String:
			into.SetString(column)
			return nil
		case into.Type() == reflect.TypeFor[[]byte]():
			into.SetBytes([]byte(column))
			return nil
		case into.Kind() == reflect.Slice || into.Kind() == reflect.Map:
			return json.Unmarshal([]byte(column), c.Into)
		}
	case []byte:
		switch {
		case into.Type() == reflect.TypeFor[[]byte]():
			into.SetBytes(append([]byte{}, column...))
			return nil
		case into.Kind() == reflect.Array && into.Len() == len(column):
			reflect.Copy(into, reflect.ValueOf(column))
			return nil
		}
	}
	return fmt.Errorf("scan %T into %T", column, c.Into)
}

// SetNumber stores a number that was read, and reports whether the variable can have it: any
// integer, a float, or a duration, which the column has in microseconds.
func SetNumber(into reflect.Value, n int64) bool {
	switch {
	case into.Type() == typeOfDuration:
		into.SetInt(n * int64(time.Microsecond))
	case into.CanInt():
		into.SetInt(n)
	case into.CanUint():
		into.SetUint(uint64(n))
	case into.CanFloat():
		into.SetFloat(float64(n))
	default:
		return false
	}
	return true
}
