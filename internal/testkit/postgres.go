package testkit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// Cluster is a temporary PostgreSQL server. It listens only on a unix socket and is durable (fsync
// is on). When the process that started it ends, in any way, the server ends too and its files are
// removed.
type Cluster struct {
	bin      string
	dir      string
	keeper   *exec.Cmd      // a shell that cleans up when its standard input ends
	lifeline io.WriteCloser // standard input of keeper: one action of pg_ctl a line
	said     *bufio.Reader  // the keeper's answers to the actions

	mu        sync.Mutex
	databases int
	templates map[string]error
}

// keeperScript runs as the owner of the cluster. read fails when Stop closes the pipe, and also
// when this process was killed.
const keeperScript = `
	if [ -z "$4" ]
	then "$1/initdb" --pgdata="$2/data" --auth=trust --username=postgres --encoding=UTF8 --locale=C --no-sync
	else "$1/pg_basebackup" --pgdata="$2/data" --host="$4" --username=postgres --write-recovery-conf --checkpoint=fast --no-sync
	fi >"$2/log" 2>&1 &&
	"$1/pg_ctl" --pgdata="$2/data" --log="$2/log" --wait --silent --options="$3" start >>"$2/log" 2>&1 &&
	echo ready || { echo broken; cat "$2/log"; }
	while read -r action; do
		"$1/pg_ctl" --pgdata="$2/data" --log="$2/log" --wait --silent --mode=immediate --options="$3" "$action" >>"$2/log" 2>&1 &&
		echo done || { echo broken; cat "$2/log"; break; }
	done
	"$1/pg_ctl" --pgdata="$2/data" --mode=immediate stop >/dev/null 2>&1
	rm -rf "$2"`

// StartPostgres starts a cluster under dir. An empty dir means the system's folder for temporary
// files. settings are configuration parameters of the server, as "name=value". The caller must stop
// the cluster.
func StartPostgres(dir string, settings ...string) (*Cluster, error) {
	return startCluster(dir, "", settings)
}

// Standby starts a hot standby of the cluster, as a cluster of its own. pg_promote() makes it a primary.
func (c *Cluster) Standby(settings ...string) (*Cluster, error) {
	return startCluster(filepath.Dir(c.dir), c.dir, settings)
}

// startCluster starts a cluster. An empty primary means a new one; otherwise it is the folder of the cluster to replicate.
func startCluster(dir, primary string, settings []string) (*Cluster, error) {
	bin, err := postgresBin()
	if err != nil {
		return nil, err
	}
	home, err := os.MkdirTemp(dir, "pr") // short, because the path of a socket has at most 107 bytes
	if err != nil {
		return nil, fmt.Errorf("make a folder for the cluster: %w", err)
	}
	owner, err := clusterOwner(home)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(home))
	}
	c := &Cluster{bin: bin, dir: home, templates: map[string]error{}}
	options := "-c " + strings.Join(append([]string{
		"listen_addresses=''", "unix_socket_directories='" + home + "'", "max_connections=200",
		"shared_buffers=64MB", "log_min_messages=warning", "max_wal_size=1GB",
	}, settings...), " -c ")
	c.keeper = exec.Command("/bin/sh", "-c", keeperScript, "sh", bin, home, options, primary)
	c.keeper.Dir = home
	// Ctrl-C does not reach the keeper
	c.keeper.SysProcAttr = &syscall.SysProcAttr{Credential: owner, Setpgid: true}
	if err := c.start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start postgres: %w", err), os.RemoveAll(home))
	}
	return c, nil
}

func (c *Cluster) start() error {
	stdout, err := c.keeper.StdoutPipe()
	if err != nil {
		return err
	}
	c.lifeline, err = c.keeper.StdinPipe()
	if err != nil {
		return err
	}
	if err := c.keeper.Start(); err != nil {
		return err
	}
	c.said = bufio.NewReader(stdout)
	return c.await("ready\n")
}

// await reads the keeper's next line. If it is not the wanted one, await lets the keeper clean up,
// and returns the keeper's output as an error.
func (c *Cluster) await(want string) error {
	if line, _ := c.said.ReadString('\n'); line == want {
		return nil
	}
	c.lifeline.Close()
	complaint, _ := io.ReadAll(c.said)
	return errors.Join(errors.New(string(complaint)), c.keeper.Wait())
}

// Control ends the server at once for the action "stop". For "start", it starts the server again
// with the same files. After an error the cluster no longer exists.
func (c *Cluster) Control(action string) error {
	if _, err := fmt.Fprintln(c.lifeline, action); err != nil {
		return fmt.Errorf("%s postgres: %w", action, err)
	}
	if err := c.await("done\n"); err != nil {
		return fmt.Errorf("%s postgres: %w", action, err)
	}
	return nil
}

// Run runs a program as the owner of the cluster, in the cluster's folder. Its subfolder data has
// the server's files. The program may replace them while the server is stopped.
func (c *Cluster) Run(ctx context.Context, program string, args ...string) error {
	command := exec.CommandContext(ctx, program, args...)
	command.Dir = c.dir
	command.SysProcAttr = &syscall.SysProcAttr{Credential: c.keeper.SysProcAttr.Credential}
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("run %s: %w: %s", filepath.Base(program), err, out)
	}
	return nil
}

// Stop ends the server at once and removes its files.
func (c *Cluster) Stop() error {
	c.lifeline.Close()
	if err := c.keeper.Wait(); err != nil {
		return fmt.Errorf("stop postgres: %w", err)
	}
	return nil
}

// Socket returns the path of the server's unix socket.
func (c *Cluster) Socket() string { return filepath.Join(c.dir, ".s.PGSQL.5432") }

// DSN returns the connection string of one of the cluster's databases.
func (c *Cluster) DSN(database string) string {
	return "postgres://postgres@/" + database + "?host=" + c.dir
}

// Bin returns the path of one of PostgreSQL's programs, such as pg_dump. It has the cluster's
// version. Only if TEST_PGBIN names a folder without the program, it is the newest one of the
// system.
func (c *Cluster) Bin(program string) string {
	own := filepath.Join(c.bin, program)
	if _, err := os.Stat(own); err == nil {
		return own
	}
	bin, err := systemBin()
	if err != nil {
		return own
	}
	return filepath.Join(bin, program)
}

// Major returns the major version of the server.
func (c *Cluster) Major() int {
	text, _ := os.ReadFile(filepath.Join(c.dir, "data", "PG_VERSION"))
	major, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return major
}

// Database makes a new database and returns its DSN. If prepare is not nil, it runs once for the
// cluster and each name, on a template. The databases of the name are copies of that template.
func (c *Cluster) Database(ctx context.Context, name string, prepare func(ctx context.Context, dsn string) error) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock() // a template must have no other user while it is copied

	template := "template0"
	if prepare != nil {
		template = "template_" + name
		if err := c.prepareLocked(ctx, template, prepare); err != nil {
			return "", err
		}
	}
	c.databases++
	database := name + "_" + strconv.Itoa(c.databases)
	if err := c.create(ctx, database, template); err != nil {
		return "", err
	}
	return c.DSN(database), nil
}

func (c *Cluster) prepareLocked(ctx context.Context, template string, prepare func(context.Context, string) error) error {
	if err, known := c.templates[template]; known {
		return err
	}
	err := c.create(ctx, template, "template0")
	if err == nil {
		err = prepare(ctx, c.DSN(template))
	}
	c.templates[template] = err
	return err
}

// drop removes a database and ends its connections.
func (c *Cluster) drop(ctx context.Context, dsn string) error {
	u, err := url.Parse(dsn)
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, c.Bin("dropdb"), "--host="+c.dir, "--username=postgres", "--force", path.Base(u.Path))
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("drop database %s: %w: %s", path.Base(u.Path), err, out)
	}
	return nil
}

func (c *Cluster) create(ctx context.Context, database, template string) error {
	command := exec.CommandContext(ctx, c.Bin("createdb"), "--host="+c.dir, "--username=postgres",
		"--template="+template, "--strategy=wal_log", database)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("create database %s: %w: %s", database, err, out)
	}
	return nil
}

// binary is the cluster that all tests of this test binary share.
var binary struct {
	sync.Mutex
	cluster *Cluster
	err     error
}

// Main is the TestMain of a package whose tests use [Postgres]. It runs the tests, stops the shared
// cluster, checks for leaked goroutines, and exits.
func Main(m *testing.M) {
	goleak.VerifyTestMain(sharing{m})
}

type sharing struct{ m *testing.M }

// Run runs the tests and then stops the cluster.
func (s sharing) Run() int {
	code := s.m.Run()
	if err := stopSharedCluster(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// Postgres returns the DSN of a new database in the shared cluster. It is a copy of a template that
// prepare made. The TestMain of the package must call [Main]. The end of the test drops the
// database. If the machine has no PostgreSQL, the test fails.
func Postgres(t testing.TB, prepare func(ctx context.Context, dsn string) error) string {
	t.Helper()
	cluster := SharedCluster(t)
	dsn, err := cluster.Database(t.Context(), "test", prepare)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.drop(context.WithoutCancel(t.Context()), dsn); err != nil {
			t.Error(err)
		}
	})
	return dsn
}

// SharedCluster returns the cluster that all tests of this test binary share.
func SharedCluster(t testing.TB) *Cluster {
	t.Helper()
	binary.Lock()
	defer binary.Unlock()
	if binary.cluster == nil && binary.err == nil {
		binary.cluster, binary.err = StartPostgres(Memory(), "max_prepared_transactions=20")
	}
	if binary.err != nil {
		t.Fatal(binary.err)
	}
	return binary.cluster
}

// Memory returns a folder on a file system in memory; empty if there is none with room for two
// clusters. In memory, a new database takes a tenth of the time, since it is a copy of 300 files.
func Memory() string {
	const dir, room = "/dev/shm", 4 << 30
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil || uint64(fs.Bavail)*uint64(fs.Bsize) < room { //nolint:unconvert // signed on some systems
		return ""
	}
	return dir
}

func stopSharedCluster() error {
	binary.Lock()
	defer binary.Unlock()
	if binary.cluster == nil {
		return nil
	}
	return binary.cluster.Stop()
}

// postgresBin returns the folder of the server's programs: the value of the environment variable
// TEST_PGBIN, or the newest version on the system.
func postgresBin() (string, error) {
	if bin := os.Getenv("TEST_PGBIN"); bin != "" {
		return bin, nil
	}
	return systemBin()
}

// systemBin returns the folder with the newest server's programs on the system.
func systemBin() (string, error) {
	// Debian does not put them on the PATH
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	slices.SortFunc(found, func(a, b string) int { return majorOf(a) - majorOf(b) })
	if len(found) > 0 {
		return filepath.Dir(found[len(found)-1]), nil
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	return "", errors.New("no PostgreSQL server here: install one (apt-get install postgresql) or put initdb on the PATH")
}

func majorOf(path string) int {
	major, _ := strconv.Atoi(strings.Split(path, "/")[4])
	return major
}

// clusterOwner gives the folder to the user that the server runs as. If this process is root, that
// is the user postgres, because PostgreSQL refuses to run as root.
func clusterOwner(dir string) (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	postgres, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("root cannot run a PostgreSQL server: %w", err)
	}
	uid, _ := strconv.Atoi(postgres.Uid)
	gid, _ := strconv.Atoi(postgres.Gid)
	if err := os.Chown(dir, uid, gid); err != nil {
		return nil, fmt.Errorf("give the cluster's folder to postgres: %w", err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}
