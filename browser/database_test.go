package browser_test

import (
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
	"testing"
)

// database is a PostgreSQL server with an empty database.
type database struct{ dir string }

const postgresBin = "/usr/lib/postgresql/15/bin/"

// newDatabase starts a PostgreSQL server; the test's end ends it.
func newDatabase(t *testing.T) *database {
	t.Helper()
	dir, err := os.MkdirTemp("", "pg") // short: a socket's path has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	d := &database{dir: dir}
	t.Cleanup(func() {
		d.stop(t)
		os.RemoveAll(dir)
	})
	if os.Getuid() == 0 {
		owner := account(t)
		if err := os.Chown(dir, int(owner.Uid), int(owner.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	initdb := d.command(t, "initdb", "--pgdata="+dir+"/data", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	start := d.command(t, "pg_ctl", "--pgdata="+dir+"/data", "--log="+dir+"/log", "--wait", "--silent",
		"--options=-c listen_addresses='' -c unix_socket_directories="+dir, "start")
	if out, err := start.CombinedOutput(); err != nil {
		t.Fatalf("start PostgreSQL: %v\n%s", err, out)
	}
	return d
}

func (d *database) command(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	command := exec.Command(postgresBin+name, args...)
	command.Dir = d.dir
	if os.Getuid() == 0 { // as which PostgreSQL refuses to run
		owner := account(t)
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &owner}
	}
	return command
}

// stop ends the database at once. It may be called twice.
func (d *database) stop(t *testing.T) {
	t.Helper()
	_ = d.command(t, "pg_ctl", "--pgdata="+d.dir+"/data", "--mode=immediate", "--silent", "stop").Run() // the second finds none
}

func (d *database) url() string { return "postgres://postgres@/postgres?host=" + d.dir }

// account returns the system's account postgres.
func account(t *testing.T) syscall.Credential {
	t.Helper()
	found, err := user.Lookup("postgres")
	if err != nil {
		t.Fatal(err)
	}
	uid, uidErr := strconv.ParseUint(found.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(found.Gid, 10, 32)
	if uidErr != nil || gidErr != nil {
		t.Fatal(uidErr, gidErr)
	}
	return syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}
