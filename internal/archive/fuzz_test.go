package archive

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
)

// oneKey is a vault in which all accounts have one key.
type oneKey [32]byte

func (k oneKey) NewArchiveKey(context.Context, postrider.AccountID) ([32]byte, []byte, error) {
	return k, []byte("key"), nil
}

func (k oneKey) DecryptArchiveKey(context.Context, postrider.AccountID, []byte) ([32]byte, error) {
	return k, nil
}

// FuzzManifest reads manifests that anybody may have changed, and their segments. What is
// read has the size that the manifest says.
func FuzzManifest(f *testing.F) {
	key := oneKey{1}
	a := New(Folder(f.TempDir()), Store{ArchiveKeys: memory.New(memory.Options{})}, key, Options{})
	account := postrider.AccountID{1}
	p := &pending{accounts: map[postrider.AccountID]*lines{}}
	event := &postrider.Event{ID: postrider.EventID{1}, Account: account, Type: "order.created", Data: []byte(`{}`)}
	if err := p.add(store.OldEvents, store.ArchivedRow{Account: account, Event: event}); err != nil {
		f.Fatal(err)
	}
	object, segments, err := a.seal(f.Context(), "v1/events/2026-11-23/0001-00.bin", p)
	if err != nil {
		f.Fatal(err)
	}
	part := store.ArchivePart{
		Kind: store.OldEvents, Day: time.Unix(0, 0), Number: 1, Object: "v1/events/2026-11-23/0001-00.bin", Rows: 1, Bytes: int64(len(object)),
	}
	f.Add(newManifest(part, segments).encode(), object)
	f.Add([]byte(`{"format":"postrider archive 1","bytes":56,"rows":2,"segments":[{"bytes":28,"rows":1},{"offset":28,"bytes":28,"rows":1}]}`),
		make([]byte, 56))
	f.Add([]byte(`{"format":"postrider archive 1","bytes":-1,"segments":[{"offset":9223372036854775807,"bytes":9223372036854775807}]}`),
		[]byte("x"))
	f.Fuzz(func(t *testing.T, text, content []byte) {
		m, err := decodeManifest(text)
		if err != nil {
			return
		}
		end := int64(0)
		for _, s := range m.Segments {
			if s.Offset != end {
				t.Fatalf("a segment begins at %d, want %d", s.Offset, end)
			}
			end += s.Bytes
			records, err := s.open(m.Object, content, key)
			if err != nil {
				continue
			}
			for line := range bytes.Lines(records) {
				if _, err := decodeRecord(m.Kind, line); err == nil && !json.Valid(line) {
					t.Errorf("a record that is no JSON was read: %q", line)
				}
			}
		}
		if end != m.Bytes {
			t.Errorf("the segments end at %d of %d", end, m.Bytes)
		}
		if p, err := m.part(); err == nil {
			if again, err := newManifest(p, m.Segments).part(); err != nil || again != p {
				t.Errorf("a part is read back as %+v (%v), want %+v", again, err, p)
			}
		}
	})
}

// FuzzCursor reads cursors that callers may have made up.
func FuzzCursor(f *testing.F) {
	f.Add(position{ArchivePart: store.ArchivePart{Kind: store.OldEvents, Day: time.Unix(0, 0), Number: 3}, skip: 7}.String())
	f.Add("ZXZlbnRz")
	f.Fuzz(func(t *testing.T, cursor string) {
		p, err := parsePosition(cursor)
		if err != nil || cursor == "" {
			return
		}
		if again, err := parsePosition(p.String()); err != nil || again.skip != p.skip || again.Number != p.Number || !again.Day.Equal(p.Day) {
			t.Errorf("read back as %+v (%v), want %+v", again, err, p)
		}
	})
}
