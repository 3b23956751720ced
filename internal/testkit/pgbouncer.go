package testkit

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// PgBouncer starts a PgBouncer in front of a database of the shared cluster, and returns the DSN through
// it. settings are lines of its configuration. All sessions are of the user postgres.
func PgBouncer(t *testing.T, dsn, settings string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pb") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Dir(SharedCluster(t).Socket())
	config := fmt.Sprintf("[databases]\n* = host=%s user=postgres\n[pgbouncer]\nlisten_addr =\nunix_socket_dir = %s\nlisten_port = 5432\nauth_type = any\n%s\n", socket, dir, settings)
	file := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "/usr/sbin/pgbouncer", "--quiet", file) // Debian does not have it in the PATH of users
	if os.Getuid() == 0 {                                                               // PgBouncer refuses to run as root
		own(t, command, dir)
	}
	var said strings.Builder
	command.Stderr = &said
	if err := command.Start(); err != nil {
		t.Fatalf("%v: apt-get install pgbouncer, or make setup", err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait() // the error says that the process was killed
	})
	for deadline := time.Now().Add(10 * time.Second); ; <-time.After(10 * time.Millisecond) {
		var dialer net.Dialer
		conn, err := dialer.DialContext(t.Context(), "unix", filepath.Join(dir, ".s.PGSQL.5432"))
		if err == nil {
			_ = conn.Close()
			return strings.Replace(dsn, socket, dir, 1)
		}
		if time.Now().After(deadline) {
			t.Fatalf("PgBouncer does not answer: %v: %s", err, &said)
		}
	}
}

// own runs a command as the user postgres, and gives that user the folder.
func own(t *testing.T, command *exec.Cmd, dir string) {
	t.Helper()
	postgres, err := user.Lookup("postgres")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(postgres.Uid)
	gid, _ := strconv.Atoi(postgres.Gid)
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}
