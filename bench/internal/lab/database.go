package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider/internal/testkit"
)

// Settings are the settings in which the lab's cluster differs from a fresh one. The cluster stays
// durable. README.md of bench and docs/operate recommend these settings.
var Settings = []string{"shared_buffers=1GB", "min_wal_size=1GB", "max_wal_size=4GB"}

// postgres starts the lab's cluster if it does not run yet.
func (l *Lab) postgres(ctx context.Context) (*testkit.Cluster, error) {
	if l.cluster != nil {
		return l.cluster, nil
	}
	// The cluster may run as another user than this process, and makes and removes a folder in it.
	home := filepath.Join(l.dir, "pg")
	if err := errors.Join(os.Mkdir(home, 0o700), os.Chmod(home, 0o777)); err != nil {
		return nil, fmt.Errorf("start postgres: %w", err)
	}
	cluster, err := testkit.StartPostgres(home, Settings...)
	if err != nil {
		return nil, err
	}
	l.cluster = cluster
	return cluster, l.fillLog(ctx)
}

// fillLog writes a gigabyte to the cluster's write-ahead log and makes a checkpoint, which keeps
// the segments for reuse, as in a cluster of some age. Otherwise commits would wait for each new
// segment, which is filled with zeros and synced: 20 to 70 ms every 16 MB.
func (l *Lab) fillLog(ctx context.Context) error {
	_, err := l.psql(ctx, l.cluster.DSN("postgres"),
		"select count(pg_logical_emit_message(false, 'fill', repeat('x', 1000000))) from generate_series(1, 1000);\ncheckpoint;")
	if err != nil {
		return fmt.Errorf("fill postgres' log: %w", err)
	}
	return nil
}

func (l *Lab) clusterFile(path ...string) string {
	return filepath.Join(append([]string{filepath.Dir(l.cluster.Socket())}, path...)...)
}

// PostgresVersion returns the version of the cluster; empty if there is no cluster.
func (l *Lab) PostgresVersion(ctx context.Context) (string, error) {
	if l.cluster == nil {
		return "", nil
	}
	return l.psql(ctx, l.cluster.DSN("postgres"), "show server_version")
}

// SQL runs a script on the server's store, which must be PostgreSQL. It returns the selected rows,
// one a line, with | between the columns.
func (l *Lab) SQL(ctx context.Context, s *Server, script string) (string, error) {
	return l.psql(ctx, s.dsn, script)
}

func (l *Lab) psql(ctx context.Context, dsn, script string) (string, error) {
	command := exec.CommandContext(ctx, l.cluster.Bin("psql"), "--no-psqlrc", "--quiet", "--tuples-only", "--no-align",
		"--set=ON_ERROR_STOP=1", dsn)
	command.Stdin = strings.NewReader(script)
	out, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("run SQL: %w: %s", err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// WALBytes returns how many bytes of write-ahead log the cluster has written since it was made; 0
// without a cluster.
func (l *Lab) WALBytes(ctx context.Context) (int64, error) {
	if l.cluster == nil {
		return 0, nil
	}
	text, err := l.psql(ctx, l.cluster.DSN("postgres"), "select pg_current_wal_lsn() - '0/0'")
	if err != nil {
		return 0, fmt.Errorf("length of the log: %w", err)
	}
	return strconv.ParseInt(text, 10, 64)
}

// DropStore removes the store of a server that has ended.
func (l *Lab) DropStore(ctx context.Context, s *Server) error {
	if s.dsn == "" {
		return os.RemoveAll(s.dir)
	}
	_, err := l.psql(ctx, l.cluster.DSN("postgres"), "drop database if exists "+s.database()+" with (force);\ncheckpoint;")
	return err
}

// LogStatements makes the cluster log the duration of each statement of the server, from the
// server's next start on. The logging itself takes time too.
func (l *Lab) LogStatements(ctx context.Context, s *Server) error {
	_, err := l.SQL(ctx, s, "alter database "+s.database()+" set log_min_duration_statement = 0;\n"+
		"alter database "+s.database()+" set log_parameter_max_length = 0;\n")
	return err
}

// LogLength returns the length of the cluster's log, in bytes.
func (l *Lab) LogLength() (int64, error) {
	entry, err := os.Stat(l.clusterFile("log"))
	if err != nil {
		return 0, fmt.Errorf("length of postgres' log: %w", err)
	}
	return entry.Size(), nil
}

var logEntry = regexp.MustCompile(`^\S+ \S+ \S+ \[(\d+)\] LOG:  duration: ([0-9.]+) ms  (parse|bind|execute|statement)`)

// StatementTimes returns the durations of the statements that were logged after the offset from and
// contain all the words. A duration includes planning.
func (l *Lab) StatementTimes(from int64, words ...string) ([]time.Duration, error) {
	log, err := os.Open(l.clusterFile("log"))
	if err != nil {
		return nil, fmt.Errorf("read postgres' log: %w", err)
	}
	defer log.Close()
	if _, err := log.Seek(from, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read postgres' log: %w", err)
	}
	var times []time.Duration
	planned := map[string]time.Duration{} // planning time by process, until the statement runs
	var entry strings.Builder
	take := func() {
		text := entry.String()
		entry.Reset()
		found := logEntry.FindStringSubmatch(text)
		if found == nil || !containsAll(text, words) {
			return
		}
		millis, _ := strconv.ParseFloat(found[2], 64) // logEntry matches only numbers
		took := time.Duration(millis * float64(time.Millisecond))
		if found[3] == "parse" || found[3] == "bind" {
			planned[found[1]] += took
			return
		}
		times = append(times, planned[found[1]]+took)
		delete(planned, found[1])
	}
	lines := bufio.NewReader(log)
	for err == nil {
		var line string
		line, err = lines.ReadString('\n')
		if !strings.HasPrefix(line, "\t") { // continued lines of an entry begin with a tab
			take()
		}
		entry.WriteString(line)
	}
	take()
	if !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read postgres' log: %w", err)
	}
	return times, nil
}

func containsAll(text string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}
