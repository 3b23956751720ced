package signature_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider/signature"
)

var allSchemes = []signature.Scheme{signature.Standard, signature.Timestamped, signature.Plain}

// TestSignerSignsAsSignDoes uses one signer from many goroutines for messages
// that differ in length.
func TestSignerSignsAsSignDoes(t *testing.T) {
	t.Parallel()
	keys := []signature.Key{{ID: "sec_1", Secret: bytes.Repeat([]byte{1}, 32)}, {Secret: bytes.Repeat([]byte{2}, 64)}}
	signer, err := signature.NewSigner(keys, allSchemes...)
	if err != nil {
		t.Fatal(err)
	}
	var signing sync.WaitGroup
	for worker := range 4 {
		signing.Go(func() {
			for i := range 200 {
				m := signature.Message{
					ID: fmt.Sprintf("evt_%d", i), Delivery: fmt.Sprintf("dlv_%d", worker), Type: "order.created",
					Timestamp: time.Unix(int64(i)*1e7, 0), Body: bytes.Repeat([]byte{byte(worker)}, i*7),
				}
				checkSigner(t, signer, m, keys)
			}
		})
	}
	signing.Wait()
}

func checkSigner(t *testing.T, signer *signature.Signer, m signature.Message, keys []signature.Key) {
	t.Helper()
	head, err := signer.AppendHeader([]byte("Before: yes\r\n"), m)
	if err != nil {
		t.Error(err)
	}
	got, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(append(head, "\r\n"...)))).ReadMIMEHeader()
	if err != nil {
		t.Error(err)
	}
	want := http.Header{"Before": {"yes"}}
	if err := signature.Sign(want, m, keys, allSchemes...); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(want, http.Header(got)); diff != "" {
		t.Errorf("header (-Sign +AppendHeader):\n%s", diff)
	}
}

func TestSignerRefuses(t *testing.T) {
	t.Parallel()
	key := signature.Key{Secret: make([]byte, 32)}
	for _, tt := range []struct {
		name    string
		keys    []signature.Key
		schemes []signature.Scheme
		want    error
	}{
		{"no key", nil, allSchemes, signature.ErrNoKey},
		{"an empty key", []signature.Key{key, {}}, allSchemes, signature.ErrNoKey},
		{"a scheme there is not", []signature.Key{key}, []signature.Scheme{"none"}, signature.ErrScheme},
	} {
		if _, err := signature.NewSigner(tt.keys, tt.schemes...); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
	signer, err := signature.NewSigner([]signature.Key{key}, allSchemes...)
	if err != nil {
		t.Fatal(err)
	}
	before := []byte("Before: yes\r\n")
	head, err := signer.AppendHeader(slices.Clone(before), signature.Message{ID: "a\r\nX-Evil: 1"})
	if !errors.Is(err, signature.ErrMessage) || !bytes.Equal(head, before) {
		t.Errorf("AppendHeader = %q, %v", head, err)
	}
}
