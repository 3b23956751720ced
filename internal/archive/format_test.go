package archive_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/archive"
	"github.com/postrider/postrider/internal/store"
)

// TestTheFormatIsTheDocumentedOne reads a part by docs/operate/archive.md alone.
func TestTheFormatIsTheDocumentedOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deliver(0, 2)
	w.deliver(1, 1)
	folder := t.TempDir()
	w.ok(all(t.Context(), w.open(archive.Folder(folder), archive.Options{}), store.OldEvents))
	name := w.parts()[0].Object
	content, err := os.ReadFile(filepath.Join(folder, name))
	w.ok(err)
	text, err := os.ReadFile(filepath.Join(folder, strings.Replace(name, ".bin", ".json", 1)))
	w.ok(err)
	var manifest struct {
		Format, Object, SHA256 string
		Segments               []struct {
			Account       string
			Offset, Bytes int
		}
	}
	w.ok(json.Unmarshal(text, &manifest))
	if sum := fmt.Sprintf("%x", sha256.Sum256(content)); sum != manifest.SHA256 {
		t.Errorf("the checksum is %s, and the manifest says %s", sum, manifest.SHA256)
	}
	var data []string
	for _, s := range manifest.Segments {
		account, err := postrider.ParseID[postrider.AccountID](s.Account)
		w.ok(err)
		encrypted, err := w.ArchiveKey(t.Context(), account)
		w.ok(err)
		key, err := w.vault.DecryptArchiveKey(t.Context(), account, encrypted)
		w.ok(err)
		block, err := aes.NewCipher(key[:])
		w.ok(err)
		gcm, err := cipher.NewGCM(block)
		w.ok(err)
		sealed := content[s.Offset : s.Offset+s.Bytes]
		frame, err := gcm.Open(nil, sealed[:12], sealed[12:], []byte(manifest.Format+"\n"+manifest.Object+"\n"+s.Account+"\n"))
		w.ok(err)
		reader, err := zstd.NewReader(bytes.NewReader(frame))
		w.ok(err)
		defer reader.Close()
		for records := json.NewDecoder(reader); records.More(); {
			var event struct {
				Type, Subject string
				Channels      []string
				Metadata      map[string]string
				Internal      map[string]string
				Previous      []byte
				ChangedPaths  []string `json:"changed_paths"`
				Data          []byte
			}
			w.ok(records.Decode(&event))
			data = append(data, event.Type+" "+string(event.Data[:10]), fmt.Sprint(
				event.Subject, event.Channels, event.Metadata, event.Internal, string(event.Previous), event.ChangedPaths))
		}
	}
	const first, second = "order/42[shop] map[a:1] map[b:2]{ }[]", "[] map[] map[][$.n]"
	if diff := cmp.Diff([]string{
		`order.created { "n": 0, `, first, `order.created { "n": 1, `, first, `order.created { "n": 0, `, second,
	}, data); diff != "" {
		t.Errorf("the events (-want +got):\n%s", diff)
	}
}
