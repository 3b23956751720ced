package sqlstore

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The statements of this package are written in a part of PostgreSQL's language. SQLite
// translates them as follows:
//
//   - The type after :: is removed. PostgreSQL needs it to know the type of an argument.
//   - "for update" is removed, with or without "skip locked", because SQLite has one writer.
//   - "@wait * interval '1 microsecond'" becomes "@wait": a duration is a number of microseconds.
//   - "encode(column, 'hex')::uuid", an id that is stored as bytes, becomes "column".
//   - The comment "/* indexed by an_index */" becomes "indexed by an_index".
//   - "greatest" and "least" become "max" and "min".
//   - "postrider_event(delivery, named_event)" becomes "event": there the column computes it.
//   - "postrider_last_delivery(event)" becomes an expression with the same value.
//   - "now()" becomes the argument @wall, the time of day of the transaction, which the store
//     adds.
//   - "= any(@list)", and the rows of "unnest(@list) n(value)", read a JSON array.
//
// Everything else is the same in both languages. The statements do not use features that only one
// of the databases has, such as a select without columns. The statements in inSQLite are the
// exceptions.
var (
	listOfIDs   = regexp.MustCompile(`= any\((@\w+)::uuid\[\]\)`)
	listOfTexts = regexp.MustCompile(`= any\((@\w+)::text\[\]\)`)
	rowsOfTexts = regexp.MustCompile(`unnest\((@\w+)::text\[\]\) (\w+)\(value\)`)
	storedID    = regexp.MustCompile(`encode\((\S+), 'hex'\)`)
	cast        = regexp.MustCompile(`::\w+(\[\])?`)
	eventOfRow  = regexp.MustCompile(`postrider_event\((?:\w+\.)?\w+, ((?:\w+\.)?)named_event\)`)
	lastOfEvent = regexp.MustCompile(`postrider_last_delivery\(([^)]+)\)`)
	forced      = regexp.MustCompile(`/\* (indexed by \w+) \*/`)
	functions   = strings.NewReplacer("greatest(", "max(", "least(", "min(", "now()", "@wall",
		"for update skip locked", "", "for update", "", " * interval '1 microsecond'", "")
)

// inSQLite has the statements that are written separately for SQLite, by PostgreSQL's statement.
// The comment of each pair says why.
var inSQLite = map[string]string{
	backlogOfAccountSQL:  backlogOfAccountOfSQLite,
	backlogOfAllSQL:      backlogOfAllOfSQLite,
	backlogOfEndpointSQL: backlogOfEndpointOfSQLite,
	deadLetterGroupsSQL:  deadLetterGroupsOfSQLite,
	endpointStatesSQL:    endpointStatesOfSQLite,
	healthInputsSQL:      healthInputsOfSQLite,
	lastFailuresSQL:      lastFailuresOfSQLite,
	oldAttemptsSQL:       oldAttemptsOfSQLite,
	oldBodiesSQL:         oldBodiesOfSQLite,
	orphanedSQL:          orphanedOfSQLite,
	takeDeltasSQL:        takeDeltasOfSQLite,
}

// SQLite translates a statement into SQLite's language.
func SQLite(statement string) string {
	if own, ok := inSQLite[statement]; ok {
		return eventOfRow.ReplaceAllString(own, `${1}event`)
	}
	statement = listOfIDs.ReplaceAllString(statement, `in (select unhex(value) from json_each($1))`)
	statement = listOfTexts.ReplaceAllString(statement, `in (select value from json_each($1))`)
	statement = rowsOfTexts.ReplaceAllString(statement, `json_each($1) $2`)
	statement = storedID.ReplaceAllString(statement, `$1`)
	statement = eventOfRow.ReplaceAllString(statement, `${1}event`)
	statement = lastOfEvent.ReplaceAllString(statement, `cast(substr($1, 1, 13) || x'ffffff' as blob)`)
	statement = forced.ReplaceAllString(statement, `$1`)
	return functions.Replace(cast.ReplaceAllString(statement, ""))
}

// Numbered is a statement that has numbers in place of the names of its arguments.
type Numbered struct {
	Text  string
	Names []string // the first has the number 1
}

// argument matches an argument in a statement.
var argument = regexp.MustCompile(`@\w+`)

// Number replaces the names of a statement's arguments by numbers with the driver's sign, such as $1.
// The statement must not have an @ before a letter elsewhere, such as in a text.
func Number(statement, sign string) (n Numbered) {
	n.Text = argument.ReplaceAllStringFunc(statement, func(name string) string {
		i := slices.Index(n.Names, name[1:])
		if i < 0 {
			i, n.Names = len(n.Names), append(n.Names, name[1:])
		}
		return sign + strconv.Itoa(i+1)
	})
	return n
}

// An id is an array of 16 bytes.
var (
	typeOfID       = reflect.TypeFor[[16]byte]()
	typeOfIDs      = reflect.TypeFor[[][16]byte]()
	typeOfTime     = reflect.TypeFor[time.Time]()
	typeOfDuration = reflect.TypeFor[time.Duration]()
)

// Plain converts an argument to nil or to one of these types: string, int64, float64, bool,
// []byte, [16]byte, time.Time, []string, [][16]byte or map[string]string. A zero time becomes
// nil, and a duration becomes its number of microseconds.
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

// ForSQLite converts an argument to the value that SQLite stores; see [Args].
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

// FromSQLite scans a column of SQLite into the variable to which Into points.
type FromSQLite struct {
	Into any
}

// Scan stores the column in the variable. If the column has another type than the variable, it
// returns an error.
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

// SetNumber stores n in the variable if the variable is an integer, a float or a duration, and
// reports whether it is. For a duration, n is a number of microseconds.
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
