package egress_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/egress"
)

// TestWithoutDescriptors runs itself in a process that has no descriptor left. It makes a request
// to an address and one to a name, because the error of a lookup has no code.
func TestWithoutDescriptors(t *testing.T) {
	t.Parallel()
	const inside = "POSTRIDER_TEST_WITHOUT_DESCRIPTORS"
	if os.Getenv(inside) == "" {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWithoutDescriptors$") //nolint:gosec // this test itself
		child.Env = append(os.Environ(), inside+"=1")
		if text, err := child.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		return
	}
	e := open(t,
		egress.Options{Reach: egress.Reach{AllowHTTP: true, AnyPort: true, Allow: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}}})
	post := func(url string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := e.Post(ctx, url, []byte("{}"))
		return err
	}
	// This request opens descriptors that are kept, such as the poller's.
	if err := post("http://127.0.0.1:1/"); err == nil {
		t.Fatal("somebody listens at port 1")
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 64, Max: 64}); err != nil {
		t.Fatal(err)
	}
	var held []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if errors.Is(err, syscall.EMFILE) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, f)
	}
	for _, url := range []string{"http://127.0.0.1:1/", "http://receiver.example:1/"} {
		err := post(url)
		if f, ok := errors.AsType[*postrider.FailureError](err); !ok || f.Failure != postrider.FailureDescriptors {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, f := range held {
		f.Close()
	}
}
