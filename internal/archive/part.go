package archive

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// Names of objects: v1/events/2026-11-23/0001-5f3c9a01.bin, with a manifest .json beside it. Because
// of the random number, no object is written twice.
const (
	objectSuffix   = ".bin"
	manifestSuffix = ".json"
)

func dayText(day time.Time) string { return day.UTC().Format(time.DateOnly) }

func folderOf(kind store.Kind, day time.Time) string {
	return fmt.Sprintf("v1/%s/%s/", kind, dayText(day))
}

// newObject returns a name for a new object.
func newObject(kind store.Kind, day time.Time, number int) string {
	var random [4]byte
	rand.Read(random[:])
	return fmt.Sprintf("%s%04d-%x%s", folderOf(kind, day), number, random, objectSuffix)
}

// manifestName returns the name of an object's manifest.
func manifestName(object string) string {
	return object[:len(object)-len(objectSuffix)] + manifestSuffix
}

// manifest describes an object. It is the JSON document beside it.
type manifest struct {
	Format   string     `json:"format"` // formatName
	Kind     store.Kind `json:"kind"`
	Day      string     `json:"day"`
	Number   int        `json:"number"`
	Object   string     `json:"object"`
	Rows     int64      `json:"rows"`
	Bytes    int64      `json:"bytes"`
	SHA256   string     `json:"sha256"`
	After    string     `json:"after"` // id; empty: the part is the first of its day
	Last     string     `json:"last"`
	MadeAt   time.Time  `json:"made_at"`
	Segments []segment  `json:"segments"` // in the order of the object
}

// formatName is the format of an object and its manifest, with the version of the records.
const formatName = "postrider archive 1"

// segment is the place of an account's records in an object. The bytes of a segment change only
// when its own records are expunged. If another account's records are expunged, a new object
// replaces the old one, and the segment is copied byte for byte.
type segment struct {
	Account postrider.AccountID `json:"account"`
	Offset  int64               `json:"offset"`
	Bytes   int64               `json:"bytes"`
	Rows    int64               `json:"rows"`
	Key     string              `json:"key"` // see keyName
	// Object is the name of the object that the segment was encrypted for; empty: this object.
	Object string `json:"object,omitempty"`
}

// keyName names a key by the first bytes of its SHA-256. After the key of an account was
// destroyed, the account gets another key for its later records.
func keyName(key [32]byte) string {
	sum := sha256.Sum256(key[:])
	return hex.EncodeToString(sum[:8])
}

// textOf returns a row's id as text; the zero id is empty.
func textOf(kind store.Kind, id store.RowID) string {
	switch {
	case id == store.RowID{}:
		return ""
	case kind == store.OldEvents:
		return postrider.EventID(id).String()
	}
	return postrider.DeliveryID(id).String()
}

// idOf parses what textOf returns.
func idOf(kind store.Kind, text string) (store.RowID, error) {
	switch {
	case text == "":
		return store.RowID{}, nil
	case kind == store.OldEvents:
		id, err := postrider.ParseID[postrider.EventID](text)
		return store.RowID(id), err
	}
	id, err := postrider.ParseID[postrider.DeliveryID](text)
	return store.RowID(id), err
}

func newManifest(p store.ArchivePart, segments []segment) manifest {
	return manifest{
		Format: formatName, Kind: p.Kind, Day: dayText(p.Day), Number: p.Number, Object: p.Object, Rows: p.Rows, Bytes: p.Bytes,
		SHA256: hex.EncodeToString(p.SHA256[:]), After: textOf(p.Kind, p.After), Last: textOf(p.Kind, p.Last), MadeAt: p.MadeAt,
		Segments: segments,
	}
}

// encode returns the JSON document. All fields can be encoded.
func (m manifest) encode() []byte {
	text, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		panic(err)
	}
	return append(text, '\n')
}

// decodeManifest reads a manifest. It checks that the segments lie one behind the other and add
// up to the size of the object.
func decodeManifest(text []byte) (m manifest, err error) {
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("read manifest: %w", err)
	}
	if m.Format != formatName {
		return m, fmt.Errorf("read manifest: its format is %q, and this program reads %q", m.Format, formatName)
	}
	end, rows := int64(0), int64(0)
	for _, s := range m.Segments {
		if s.Offset != end || s.Bytes < overhead || s.Rows < 1 || s.Bytes > m.Bytes-end || s.Rows > m.Rows-rows {
			return m, errors.New("read manifest: its segments do not follow each other")
		}
		end, rows = end+s.Bytes, rows+s.Rows
	}
	if end != m.Bytes || rows != m.Rows {
		return m, errors.New("read manifest: its segments are not all of the object")
	}
	return m, nil
}

// part returns the part that the manifest describes. It counts all rows as left.
func (m manifest) part() (p store.ArchivePart, err error) {
	p = store.ArchivePart{Kind: m.Kind, Number: m.Number, Object: m.Object, Rows: m.Rows, Left: m.Rows, Bytes: m.Bytes, MadeAt: m.MadeAt}
	var errs [4]error
	p.Day, errs[0] = time.Parse(time.DateOnly, m.Day)
	p.After, errs[1] = idOf(m.Kind, m.After)
	p.Last, errs[2] = idOf(m.Kind, m.Last)
	sum, err := hex.DecodeString(m.SHA256)
	if errs[3] = err; err == nil && len(sum) != len(p.SHA256) {
		errs[3] = errors.New("sha256 has another length")
	}
	copy(p.SHA256[:], sum)
	if err := errors.Join(errs[:]...); err != nil {
		return p, fmt.Errorf("read manifest: %w", err)
	}
	return p, nil
}

// pending is a part before it is encrypted: the records of each account as NDJSON.
type pending struct {
	accounts map[postrider.AccountID]*lines
	rows     []store.OldRow // all rows of the part, in the order of their ids
	bytes    int
	last     store.RowID
	full     bool // the part has reached PartBytes, and there are more rows after last
}

type lines struct {
	bytes.Buffer

	rows int64
}

// unknownAccount is used for a body whose attempt no longer exists.
var unknownAccount = postrider.AccountID{15: 1}

// read gathers rows until they have PartBytes of JSON, and then all further rows of the last
// delivery.
func (a *Archive) read(ctx context.Context, q store.ArchiveRows) (*pending, error) {
	p := &pending{accounts: map[postrider.AccountID]*lines{}}
	pace := pace{begun: time.Now()}
	var wrong error
	err := a.store.ArchiveRows(ctx, q, func(r store.ArchivedRow) bool {
		if p.full = p.bytes >= a.opts.PartBytes && r.ID() != p.last; p.full {
			return false
		}
		wrong = p.add(q.Kind, r)
		pace.rest(ctx)
		return wrong == nil && ctx.Err() == nil
	})
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return p, errors.Join(err, wrong)
}

func (p *pending) add(kind store.Kind, r store.ArchivedRow) error {
	if r.Account.IsZero() {
		r.Account = unknownAccount
	}
	to := p.accounts[r.Account]
	if to == nil {
		to = &lines{}
		p.accounts[r.Account] = to
	}
	before := to.Len()
	if err := encodeRecord(&to.Buffer, kind, r); err != nil {
		return err
	}
	to.rows++
	p.rows = append(p.rows, r.Name())
	p.bytes += to.Len() - before
	p.last = r.ID()
	return nil
}

// overhead is what encryption adds to a segment: the nonce and the tag.
const overhead = 12 + 16

// blockBytes is how many bytes are compressed between two rests: about a millisecond of work.
const blockBytes = 128 << 10

// seal compresses and encrypts the records of each account. It returns the object and the places
// of its segments.
func (a *Archive) seal(ctx context.Context, object string, p *pending) (content []byte, segments []segment, err error) {
	var compressed bytes.Buffer
	compressor, err := zstd.NewWriter(&compressed, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, nil, err
	}
	pace := pace{begun: time.Now()}
	for _, account := range slices.SortedFunc(maps.Keys(p.accounts), postrider.AccountID.Compare) {
		key, err := a.keys.ofWriter(ctx, account)
		if err != nil {
			return nil, nil, err
		}
		aead, err := cipherOf(key)
		if err != nil {
			return nil, nil, err
		}
		records := p.accounts[account]
		compressed.Reset()
		compressor.Reset(&compressed)
		for block := range slices.Chunk(records.Bytes(), blockBytes) {
			if _, err := compressor.Write(block); err != nil {
				return nil, nil, err
			}
			pace.rest(ctx)
		}
		if err := compressor.Close(); err != nil {
			return nil, nil, err
		}
		offset := len(content)
		content = encrypt(content, aead, compressed.Bytes(), authenticated(object, account))
		segments = append(segments, segment{
			Account: account, Offset: int64(offset), Bytes: int64(len(content) - offset), Rows: records.rows, Key: keyName(key),
		})
		delete(p.accounts, account)
	}
	return content, segments, nil
}

// encrypt appends a new nonce and the encrypted text to `to`.
func encrypt(to []byte, aead cipher.AEAD, text, authenticated []byte) []byte {
	nonce := make([]byte, aead.NonceSize())
	rand.Read(nonce)
	return aead.Seal(append(to, nonce...), nonce, text, authenticated)
}

func cipherOf(key [32]byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// authenticated returns the additional data that the tag of a segment covers. With it, a segment
// can be decrypted only as a segment of this object and this account.
func authenticated(object string, account postrider.AccountID) []byte {
	return []byte(formatName + "\n" + object + "\n" + account.String() + "\n")
}

// errSegment means that a segment cannot be decrypted.
var errSegment = errors.New("a segment is damaged, or encrypted with another key")

// open returns the records of a segment.
func (s segment) open(object string, content []byte, key [32]byte) ([]byte, error) {
	aead, err := cipherOf(key)
	if err != nil {
		return nil, err
	}
	if s.Offset < 0 || s.Bytes < overhead || s.Offset > int64(len(content))-s.Bytes {
		return nil, errSegment
	}
	sealed := content[s.Offset : s.Offset+s.Bytes]
	if s.Object != "" {
		object = s.Object
	}
	compressed, err := aead.Open(nil, sealed[:aead.NonceSize()], sealed[aead.NonceSize():], authenticated(object, s.Account))
	if err != nil {
		return nil, errSegment
	}
	return decompress(compressed)
}

// maxSegment limits the decompressed bytes of a segment to far more than a part has.
const maxSegment = 1 << 30

func decompress(compressed []byte) ([]byte, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxSegment))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	records, err := d.DecodeAll(compressed, nil)
	if err != nil {
		return nil, fmt.Errorf("decompress a segment: %w", err)
	}
	return records, nil
}
