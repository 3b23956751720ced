package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// patience is how long the test waits for an event.
const patience = 30 * time.Second

// container is the part of an image's configuration that the test's runtime reads.
type container struct {
	Config struct {
		User            string
		Entrypoint, Cmd []string
		Env             []string
		WorkingDir      string
		ExposedPorts    map[string]any
		Labels          map[string]string
	}
}

// checkImage unpacks the layers and starts the program in them as a container runtime does: with
// the image as its root, as the image's user, and with only the network of this machine. A delivery
// by https is accepted only if the image's certificate authorities are in their place.
func (p published) checkImage(t *testing.T) {
	root := t.TempDir()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	c := p.unpackImage(t, root)
	if c.Config.Labels["org.opencontainers.image.version"] != "1.9.7-rc.1" || len(c.Config.ExposedPorts) != 2 ||
		c.Config.User != "65532:65532" {
		t.Errorf("the image's configuration is %+v", c)
	}
	received := make(chan *http.Request, 1)
	receiver := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { received <- r }))
	receiver.TLS = &tls.Config{Certificates: []tls.Certificate{p.ca.Certificate(t, time.Now().Add(time.Hour), "127.0.0.1")}}
	receiver.StartTLS()
	t.Cleanup(receiver.Close)

	begun := time.Now()
	api, ops := c.start(t, root)
	for ready := false; !ready; {
		_, err := client.Ready(t.Context(), "http://"+ops)
		ready = err == nil
		if time.Since(begun) > patience {
			t.Fatal("the server in the image does not get ready")
		}
		<-time.After(5 * time.Millisecond)
	}
	t.Logf("ready after %s", time.Since(begun).Round(time.Millisecond))
	key := strings.TrimSpace(string(readFile(t, filepath.Join(root, "data/admin.key"))))
	calls := client.New("http://"+api, key, client.Options{})
	defer calls.Close()
	if _, err := calls.CreateAccount(t.Context(), apitypes.AccountCreate{UID: "acme", Name: "Acme"}); err != nil {
		t.Fatal(err)
	}
	if _, err := calls.CreateEndpoint(t.Context(), apitypes.EndpointCreate{
		Account: "acme", URL: receiver.URL,
		EventTypes: []string{"*"},
	}); err != nil {
		t.Fatal(err)
	}
	_, err := calls.Publish(t.Context(), apitypes.EventCreate{Account: "acme", Type: "order.created", Data: json.RawMessage(`{}`)})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case r := <-received:
		if r.Header.Get("Webhook-Signature") == "" {
			t.Errorf("the request is not signed: %v", r.Header)
		}
	case <-time.After(patience):
		t.Fatal("no delivery has arrived")
	}
}

// unpackImage writes the layers into a folder and returns the configuration. It reads the
// image by manifest.json, as docker load does.
func (p published) unpackImage(t *testing.T, root string) (c container) {
	t.Helper()
	layout := t.TempDir()
	packed := readFile(t, p.file("linux_amd64.image.tar"))
	untar(t, bytes.NewReader(packed), layout)
	var listed []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if err := json.Unmarshal(readFile(t, filepath.Join(layout, "manifest.json")), &listed); err != nil || len(listed) != 1 {
		t.Fatalf("manifest.json: %v of %v", err, listed)
	}
	if want := []string{"postrider/postrider:1.9.7-rc.1"}; !slices.Equal(listed[0].RepoTags, want) {
		t.Errorf("the image has the tags %v, want %v", listed[0].RepoTags, want)
	}
	if err := json.Unmarshal(readFile(t, filepath.Join(layout, listed[0].Config)), &c); err != nil {
		t.Fatal(err)
	}
	for _, layer := range listed[0].Layers {
		untar(t, gunzip(t, readFile(t, filepath.Join(layout, layer))), root)
	}
	t.Logf("the image has %d bytes", len(packed))
	return c
}

var listens = regexp.MustCompile(`postrider listens" api=(\S+) ops=(\S+)`)

// start starts the entry point of the image and returns the addresses of its listeners. The end of
// the test kills it.
func (c container) start(t *testing.T, root string) (api, ops string) {
	t.Helper()
	cmd := exec.Command(c.Config.Entrypoint[0], append(slices.Concat(c.Config.Entrypoint[1:], c.Config.Cmd),
		"--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0", "--log-format=text", "--egress-allow=127.0.0.0/8", "--egress-ports=any")...)
	cmd.Dir, cmd.Env = c.Config.WorkingDir, c.Config.Env
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Chroot: root, Credential: &syscall.Credential{Uid: imageUser, Gid: imageUser},
		Pdeathsig: syscall.SIGKILL,
	}
	// In this user namespace, the user has the image's number and may change its root.
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.Credential.NoSetGroups = true
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: imageUser, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: imageUser, HostID: os.Getgid(), Size: 1}}
	}
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the image: %v", err)
	}
	addresses := make(chan []string, 1)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(addresses)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			if found := listens.FindStringSubmatch(lines.Text()); found != nil {
				addresses <- found
			}
		}
	})
	t.Cleanup(func() {
		cmd.Process.Kill()
		reading.Wait()
		cmd.Wait()
	})
	found, ok := <-addresses
	if !ok {
		t.Fatal("the program in the image ended at once")
	}
	return found[1], found[2]
}
