// Package lab runs Postrider as its users do, from outside: the built server in a process of its
// own, with a store of its own, and all connections on the loopback interface. The measuring
// programs in bench share it.
//
//	l, err := lab.Open(ctx, "")
//	defer l.Close()
//	server, err := l.StartServer(ctx, lab.ServerOptions{Store: "sqlite"})
//	c := server.Client()
//
// It promises:
//
//   - Close ends every process that the lab started, each by its own pid, and
//     removes the lab's folder.
//   - If the program ends without Close, the kernel kills the processes.
//   - The usage of a process is read from /proc, so the numbers are the kernel's.
//
// It knows nothing of the measurements, and runs only on Linux.
package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/postrider/postrider/internal/testkit"
)

const module = "github.com/postrider/postrider"

// Lab is a folder with the built programs, the stores of a run and its logs.
type Lab struct {
	dir     string
	cluster *testkit.Cluster
	servers int

	mu        sync.Mutex
	processes []*Process // guarded by mu, because loads can start at the same time
}

// Open builds the server and the named programs of bench in a new folder below dir. An empty dir
// means the system's folder for temporary files. The disk of the folder decides how long a commit
// takes.
func Open(ctx context.Context, dir string, programs ...string) (*Lab, error) {
	home, err := os.MkdirTemp(dir, "lab")
	if err != nil {
		return nil, fmt.Errorf("open lab: %w", err)
	}
	l := &Lab{dir: home}
	packages := []string{module + "/cmd/postrider"}
	for _, program := range programs {
		packages = append(packages, module+"/bench/"+program)
	}
	// The cluster's user must be able to enter the folder.
	if err := os.Chmod(home, 0o711); err != nil {
		return nil, errors.Join(fmt.Errorf("open lab: %w", err), l.Close())
	}
	if err := l.build(ctx, packages); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *Lab) build(ctx context.Context, packages []string) error {
	bin := filepath.Join(l.dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		return fmt.Errorf("build: %w", err)
	}
	build := exec.CommandContext(ctx, "go", append([]string{"build", "-o", bin + "/"}, packages...)...)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return nil
}

// BuildCommit builds the server of another commit of this repository. It returns the name of the
// program for ServerOptions.Program.
func (l *Lab) BuildCommit(ctx context.Context, commit string) (program string, err error) {
	tree, err := l.Folder("tree")
	if err != nil {
		return "", err
	}
	program = "postrider-" + commit
	for _, step := range []*exec.Cmd{
		exec.CommandContext(ctx, "git", "archive", "--format=tar", "--output="+filepath.Join(tree, "tree.tar"), commit),
		exec.CommandContext(ctx, "tar", "-x", "-f", filepath.Join(tree, "tree.tar"), "-C", tree),
		exec.CommandContext(ctx, "go", "build", "-C", tree, "-o", l.Program(program), "./cmd/postrider"),
	} {
		if out, err := step.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build commit %s: %s: %w\n%s", commit, step.Args[0], err, out)
		}
	}
	return program, nil
}

// Close ends all processes that the lab started and removes its folder.
func (l *Lab) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, p := range l.processes {
		errs = append(errs, p.Kill())
	}
	if l.cluster != nil {
		errs = append(errs, l.cluster.Stop())
	}
	return errors.Join(append(errs, os.RemoveAll(l.dir))...)
}

// Folder makes an empty folder. Close removes it.
func (l *Lab) Folder(name string) (string, error) {
	dir, err := os.MkdirTemp(l.dir, name)
	if err != nil {
		return "", fmt.Errorf("make a folder: %w", err)
	}
	return dir, nil
}

// Program returns the path of a built program.
func (l *Lab) Program(name string) string { return filepath.Join(l.dir, "bin", name) }

// PostgresUsage returns what the cluster has used since it started: the postmaster, its present
// backends and all earlier ones.
func (l *Lab) PostgresUsage() (Usage, error) {
	if l.cluster == nil {
		return Usage{}, nil
	}
	return clusterUsage(l.cluster)
}

// clusterUsage returns what the cluster has used since it started.
func clusterUsage(c *testkit.Cluster) (Usage, error) {
	pidFile := filepath.Join(filepath.Dir(c.Socket()), "data", "postmaster.pid")
	text, err := os.ReadFile(pidFile)
	if err != nil {
		return Usage{}, fmt.Errorf("postgres usage: %w", err)
	}
	var postmaster int
	if _, err := fmt.Sscan(string(text), &postmaster); err != nil {
		return Usage{}, fmt.Errorf("postgres usage: read %s: %w", pidFile, err)
	}
	return familyUsage(postmaster)
}

// StoreBytes returns the size on disk of the server's store without its write-ahead log. The length
// of that log depends on the time since the last checkpoint.
func (l *Lab) StoreBytes(s *Server) (int64, error) {
	if s.dsn != "" {
		return folderBytes(l.clusterFile("data", "base"))
	}
	return folderBytes(s.dir)
}

func folderBytes(dir string) (int64, error) {
	var total int64
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a temporary file that was removed meanwhile
		}
		if err != nil || !d.Type().IsRegular() || filepath.Ext(path) == ".db-wal" || filepath.Ext(path) == ".log" {
			return err
		}
		entry, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		total += entry.Size()
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("size of %s: %w", strconv.Quote(filepath.Base(dir)), err)
	}
	return total, nil
}
