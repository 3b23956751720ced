package outbox_test

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/outbox"
	"github.com/postrider/postrider/internal/testkit"
)

// Without sslmode, the certificate of the server must be signed by the CA and name the host.
func TestOpenVerifiesTheCertificate(t *testing.T) {
	t.Parallel()
	ca := testkit.NewCA(t)
	port := freePort(t)
	cluster, err := testkit.StartPostgres("", append(certificate(t, ca), "listen_addresses=127.0.0.1", fmt.Sprint("port=", port))...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	}()
	at := func(host, mode string) string {
		return fmt.Sprintf("postgres://postgres@%s:%d/postgres%s", host, port, mode)
	}
	if err := outbox.Install(t.Context(), outbox.Config{URL: at("localhost", ""), CA: string(ca.PEM())}, false); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ url, ca, want string }{
		{at("localhost", ""), string(ca.PEM()), ""},
		{at("localhost", "?sslmode=verify-ca"), string(ca.PEM()), ""},
		{at("localhost", "?sslmode=require"), "", ""},
		{at("localhost", "?sslmode=disable"), "", ""},
		{at("localhost", ""), "", "certificate signed by unknown authority"},
		{at("localhost", ""), string(testkit.NewCA(t).PEM()), "certificate signed by unknown authority"},
		{at("127.0.0.1", ""), string(ca.PEM()), "127.0.0.1"},
	} {
		db, err := outbox.Open(t.Context(), outbox.Config{URL: tt.url, CA: tt.ca})
		if err == nil {
			db.Close()
		}
		if err == nil != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.url, err, tt.want)
		}
	}
}

// certificate returns the settings of a server that has a certificate for localhost.
func certificate(t *testing.T, ca *testkit.CA) []string {
	t.Helper()
	own := ca.Certificate(t, time.Now().Add(time.Hour), "localhost")
	key, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "tls")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	settings := []string{"ssl=on"}
	for name, block := range map[string]*pem.Block{
		"ssl_cert_file": {Type: "CERTIFICATE", Bytes: own.Certificate[0]}, "ssl_key_file": {Type: "PRIVATE KEY", Bytes: key},
	} {
		file := filepath.Join(dir, name)
		settings = append(settings, name+"="+file)
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		give(t, file)
	}
	give(t, dir)
	return settings
}

// give gives a file to the user that the server runs as.
func give(t *testing.T, file string) {
	t.Helper()
	if os.Getuid() != 0 {
		return
	}
	postgres, err := user.Lookup("postgres")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(postgres.Uid)
	gid, _ := strconv.Atoi(postgres.Gid)
	if err := os.Chown(file, uid, gid); err != nil {
		t.Fatal(err)
	}
}

// freePort returns a port that nobody listened at a moment ago.
func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}
