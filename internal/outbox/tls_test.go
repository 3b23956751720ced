package outbox_test

import (
	"context"
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
		{at("localhost", ""), "", "; give the certificates that sign that of the server, or let the URL have sslmode=require"},
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

// Errors of a connection say what to do.
func TestOpenAdvises(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "hba")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	rules := filepath.Join(dir, "rules")
	if err := os.WriteFile(rules, []byte("local all postgres trust\nlocal all all scram-sha-256\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	give(t, rules)
	give(t, dir)
	cluster, err := testkit.StartPostgres("", "hba_file="+rules)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cluster.Stop() }()
	if _, err := connect(t, cluster.DSN("postgres")).Exec(t.Context(), "create role link login password 'right'"); err != nil {
		t.Fatal(err)
	}
	const advice = "no password was given"
	for _, tt := range []struct{ mode, password, want, never string }{
		{"", "right", "; the server has no TLS: set it up there, or let the URL have sslmode=disable", advice},
		{"?sslmode=disable", "", "; " + advice, "sslmode"},
		{"?sslmode=disable", "wrong", "password authentication failed", advice},
		{"?sslmode=disable", "right", "postrider outbox install", advice},
	} {
		_, err := outbox.Open(t.Context(), outbox.Config{
			URL: "postgres://link@producer.example/postgres" + tt.mode, Password: tt.password,
			Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", cluster.Socket())
			},
		})
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), tt.never) {
			t.Errorf("%+v: %v", tt, err)
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
