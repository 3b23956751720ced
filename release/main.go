// Command release builds everything that a release publishes. It needs only Go and git.
//
//	git tag v1.2.3
//	go run ./release -version v1.2.3
//
// It writes into ./dist, for Linux and macOS on amd64 and arm64:
//
//   - an archive of the program, with its licences, the unit of systemd and a
//     configuration to start from;
//   - the SBOM of the program, in SPDX 2.3;
//   - for Linux, a Debian package and a container image;
//   - one container image for both architectures, the Helm chart, and SHA256SUMS
//     of all files.
//
// It promises:
//
//   - The same tag, the same Go and the same file of certificate authorities give
//     the same bytes, in every folder and on every machine. Every time stamp is the
//     commit's, or SOURCE_DATE_EPOCH.
//   - The version that the program prints is the tag, since Go reads it from git. A
//     build with changed files, or of a commit without the tag, is refused.
//   - Every module in a published binary has a licence that is known to be permissive.
//
// It signs nothing and uploads nothing.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// release is the release that is being made.
type release struct {
	root     string    // folder of the repository
	out      string    // folder for the results; must not exist yet
	version  string    // the tag: v1.2.3
	roots    string    // file with the certificate authorities of the image, PEM
	revision string    // of the commit; set by describe
	time     time.Time // of the commit, or SOURCE_DATE_EPOCH; set by describe
}

// target is a system that the program is built for.
type target struct{ os, arch string }

// targets are all targets of a release.
var targets = []target{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

func main() {
	r := release{root: "."}
	flag.StringVar(&r.version, "version", "", "tag of the release, like v1.2.3; the commit must have it")
	flag.StringVar(&r.out, "out", "dist", "folder for the results, which must not exist yet")
	flag.StringVar(&r.roots, "roots", "/etc/ssl/certs/ca-certificates.crt", "file with the certificate authorities that the image gets")
	only := flag.String("targets", "", "build these alone, such as linux/amd64,linux/arm64; default: all")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	chosen := slices.DeleteFunc(slices.Clone(targets), func(t target) bool {
		return *only != "" && !slices.Contains(strings.Split(*only, ","), t.os+"/"+t.arch)
	})
	if err := r.run(ctx, chosen, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// run makes the release for the chosen targets, one after the other, and prints the checksums.
func (r *release) run(ctx context.Context, chosen []target, log io.Writer) error {
	if len(chosen) == 0 {
		return fmt.Errorf("no target is chosen of %v", targets)
	}
	if err := r.describe(ctx); err != nil {
		return err
	}
	// Mkdir fails if the folder exists: its files would get into the checksums.
	if err := os.Mkdir(r.out, 0o755); err != nil {
		return err
	}
	var images []*image
	for _, t := range chosen {
		built, err := r.publish(ctx, t)
		if err != nil {
			return fmt.Errorf("%s/%s: %w", t.os, t.arch, err)
		}
		if built != nil {
			images = append(images, built)
		}
	}
	if len(images) > 0 {
		if err := r.write("oci.tar", func(w io.Writer) error { return r.writeLayout(w, images) }); err != nil {
			return err
		}
	}
	if err := r.write("chart.tgz", r.writeChart); err != nil {
		return err
	}
	return r.sum(log)
}

// publish builds the program for one target and writes the files of that target. For Linux it
// returns the container image.
func (r *release) publish(ctx context.Context, t target) (*image, error) {
	p, err := r.build(ctx, t)
	if err != nil {
		return nil, err
	}
	name := t.os + "_" + t.arch
	if err := r.write(name+".tar.gz", func(w io.Writer) error { return r.writeArchive(w, p) }); err != nil {
		return nil, err
	}
	if err := r.write(name+".spdx.json", func(w io.Writer) error { return r.writeSBOM(w, p) }); err != nil {
		return nil, err
	}
	if t.os != "linux" {
		return nil, nil //nolint:nilnil // no image is none
	}
	if err := r.write(t.arch+".deb", func(w io.Writer) error { return r.writeDeb(w, p) }); err != nil {
		return nil, err
	}
	built, err := r.image(p)
	if err != nil {
		return nil, err
	}
	return built, r.write(name+".image.tar", func(w io.Writer) error { return r.writeLayout(w, []*image{built}) })
}

// describe checks that the tree is the tagged commit, and reads its revision and time. A wrong tree
// fails here at once; without this check build would find it only after minutes.
func (r *release) describe(ctx context.Context) error {
	described, err := r.command(ctx, nil, "git", "describe", "--tags", "--exact-match", "--match="+r.version, "--dirty")
	if err != nil || strings.TrimSpace(described) != r.version {
		return fmt.Errorf("git says that this is %q, not %s: commit all changes, then tag the commit (git tag %s)",
			strings.TrimSpace(described), r.version, r.version)
	}
	text, err := r.command(ctx, nil, "git", "log", "-1", "--format=%H %ct")
	if err != nil {
		return err
	}
	revision, seconds, _ := strings.Cut(strings.TrimSpace(text), " ")
	if epoch, ok := os.LookupEnv("SOURCE_DATE_EPOCH"); ok {
		seconds = epoch
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return fmt.Errorf("read the time of the release: %w", err)
	}
	r.revision, r.time = revision, time.Unix(unix, 0).UTC()
	return nil
}

// command runs a program in the repository and returns its output. For a target, it overrides the
// caller's environment variables that would change the build.
func (r *release) command(ctx context.Context, t *target, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = r.root
	if t != nil {
		cmd.Env = append(os.Environ(), "GOOS="+t.os, "GOARCH="+t.arch, "CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0",
			"GOFLAGS=", "GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off")
	}
	var output, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &complaint
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, args[0], err, bytes.TrimSpace(complaint.Bytes()))
	}
	return output.String(), nil
}

// number returns the version without its v, for file names and packages.
func (r *release) number() string { return strings.TrimPrefix(r.version, "v") }

// write writes one file of the release.
func (r *release) write(name string, body func(io.Writer) error) error {
	f, err := os.Create(filepath.Join(r.out, "postrider_"+r.number()+"_"+name))
	if err != nil {
		return err
	}
	if err := body(f); err != nil {
		f.Close()
		return fmt.Errorf("write %s: %w", name, err)
	}
	return f.Close()
}

// sum writes SHA256SUMS in the format of sha256sum, and prints the size and name of each file.
func (r *release) sum(log io.Writer) error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, e := range entries { // sorted by name
		body, err := os.ReadFile(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(body), e.Name())
		fmt.Fprintf(log, "%9d  %s\n", len(body), e.Name())
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(sums.String()), 0o644)
}
