package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// published is a release of this tree, made by the program in the way that people run it.
type published struct {
	dist string
	ca   *testkit.CA // its certificate is the image's only authority
}

// testVersion is the version of the release. It is a pre-release, because Debian orders these in
// its own way.
const testVersion = "v1.9.7-rc.1"

// TestRelease makes a release of the tree as it is, for one target. It installs and starts the
// files as users do. Other targets use the same code, so only `make release` builds them.
func TestRelease(t *testing.T) {
	t.Parallel()
	p := published{ca: testkit.NewCA(t)}
	roots := filepath.Join(t.TempDir(), "roots.pem")
	writeFile(t, roots, p.ca.PEM())
	program := filepath.Join(t.TempDir(), "release")
	run(t, ".", "go", "build", "-o", program, ".")
	first := commitTree(t)
	p.dist = filepath.Join(first, "dist")
	t.Log(run(t, first, program, "-version", testVersion, "-targets", "linux/amd64", "-roots", roots))

	t.Run("the same commit gives the same bytes in another folder", func(t *testing.T) {
		second := commitTree(t)
		run(t, second, program, "-version", testVersion, "-targets", "linux/amd64", "-roots", roots)
		sums := func(folder string) string { return string(readFile(t, filepath.Join(folder, "dist", "SHA256SUMS"))) }
		if a, b := sums(first), sums(second); a != b {
			t.Errorf("the sums differ:\n%s\n%s", a, b)
		}
	})
	t.Run("a changed file is refused", func(t *testing.T) {
		writeFile(t, filepath.Join(first, "LICENSE"), []byte("changed"))
		output, err := exec.Command("env", "-C", first, program, "-version", testVersion, "-out", "other", "-targets", "linux/amd64", "-roots",
			roots).CombinedOutput()
		if err == nil || !strings.Contains(string(output), `"`+testVersion+`-dirty", not `+testVersion) {
			t.Errorf("release of a changed tree: %v\n%s", err, output)
		}
	})
	t.Run("the sums are of all files", p.checkSums)
	t.Run("the archive has all that its user needs", p.checkArchive)
	t.Run("the chart has the version and the alerts", p.checkChart)
	t.Run("the SBOM lists what is linked", p.checkSBOM)
	t.Run("the package installs, and goes", p.checkDeb)
	t.Run("the image runs", p.checkImage)
}

func (p published) checkSums(t *testing.T) {
	run(t, p.dist, "sha256sum", "--check", "--strict", "SHA256SUMS")
	lines := strings.Count(string(readFile(t, filepath.Join(p.dist, "SHA256SUMS"))), "\n")
	entries, err := os.ReadDir(p.dist)
	if err != nil || lines != len(entries)-1 {
		t.Errorf("%d sums of %d files: %v", lines, len(entries)-1, err)
	}
}

func (p published) checkArchive(t *testing.T) {
	folder := t.TempDir()
	run(t, folder, "tar", "-xzf", p.file("linux_amd64.tar.gz"))
	folder = filepath.Join(folder, "postrider_1.9.7-rc.1")
	for _, name := range []string{
		"LICENSE", "README.md", "CHANGELOG.md", "docs/operate/install.md", "THIRD_PARTY_LICENSES", "postrider.service", "postrider.sysusers",
		"postrider.yaml", "compose.yaml",
		"prometheus/prometheus.yml", "prometheus/postrider.rules.yml", "grafana/postrider.json",
		"grafana/provisioning/datasources/prometheus.yaml",
	} {
		if len(readFile(t, filepath.Join(folder, name))) == 0 {
			t.Errorf("%s is empty", name)
		}
	}
	program := filepath.Join(folder, "postrider")
	said := run(t, folder, program, "version")
	if !regexp.MustCompile(`^postrider v1\.9\.7-rc\.1, revision [0-9a-f]{40} of 2026-05-04T12:00:00Z, ` + regexp.QuoteMeta(runtime.Version()) +
		"\n$").MatchString(said) {
		t.Errorf("postrider version = %q", said)
	}
	if linked, err := exec.Command("ldd", program).CombinedOutput(); err == nil {
		t.Errorf("the program is not static:\n%s", linked)
	}
	if binary := readFile(t, program); bytes.Contains(binary, []byte(os.TempDir()+"/Test")) {
		t.Error("the program contains a path of the machine that built it")
	}
	notes := string(readFile(t, filepath.Join(folder, "THIRD_PARTY_LICENSES")))
	built, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range built.Deps {
		// One line in the list, and one text.
		if n := strings.Count(notes, "\n"+module.Path+" "+module.Version+": "); n < 2 {
			t.Errorf("THIRD_PARTY_LICENSES names %s %s %d times", module.Path, module.Version, n)
		}
	}
}

// checkChart unpacks the chart. Module deploy tests the contents of the chart.
func (p published) checkChart(t *testing.T) {
	folder := t.TempDir()
	run(t, folder, "tar", "-xzf", p.file("chart.tgz"))
	chart := string(readFile(t, filepath.Join(folder, "postrider", "Chart.yaml")))
	if strings.Count(chart, "ersion: 1.9.7-rc.1\n") != 2 || strings.Contains(chart, "0.0.0") {
		t.Errorf("the chart is\n%s", chart)
	}
	for name, source := range map[string]string{
		"files/postrider.rules.yml": "prometheus/postrider.rules.yml", "files/postrider.json": "grafana/postrider.json",
		"values.schema.json": "helm/postrider/values.schema.json",
	} {
		if !bytes.Equal(readFile(t, filepath.Join(folder, "postrider", name)), readFile(t, "../deploy/"+source)) {
			t.Errorf("%s of the chart is not deploy/%s", name, source)
		}
	}
}

// checkSBOM checks the document against the JSON schema of SPDX 2.3, for the fields that it has,
// and against the binary.
func (p published) checkSBOM(t *testing.T) {
	var d spdxDocument
	decoder := json.NewDecoder(bytes.NewReader(readFile(t, p.file("linux_amd64.spdx.json"))))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		t.Fatal(err)
	}
	want := spdxDocument{ID: "SPDXRef-DOCUMENT", Version: "SPDX-2.3", DataLicence: "CC0-1.0"}
	if d.ID != want.ID || d.Version != want.Version || d.DataLicence != want.DataLicence || d.Name == "" ||
		!strings.HasPrefix(d.Namespace, "https://") {
		t.Errorf("the document's head is %+v", d)
	}
	if d.Creation.Created != "2026-05-04T12:00:00Z" || len(d.Creation.Creators) == 0 {
		t.Errorf("creationInfo = %+v", d.Creation)
	}
	ids := map[string]string{"SPDXRef-DOCUMENT": ""}
	for _, listed := range d.Packages {
		if !regexp.MustCompile(`^SPDXRef-[a-zA-Z0-9.-]+$`).MatchString(listed.ID) || listed.Name == "" || listed.Location == "" ||
			listed.Analyzed {
			t.Errorf("package %+v", listed)
		}
		if !regexp.MustCompile(`^(MIT|Apache-2\.0|BSD-[23]-Clause|ISC)( AND |$)`).MatchString(listed.Declared) {
			t.Errorf("package %s has the licence %q", listed.Name, listed.Declared)
		}
		if len(listed.Refs) != 1 || !strings.HasPrefix(listed.Refs[0].Locator, "pkg:golang/"+listed.Name+"@") {
			t.Errorf("package %s has the references %v", listed.Name, listed.Refs)
		}
		ids[listed.ID] = listed.Name
	}
	for _, r := range d.Relationships {
		if _, ok := ids[r.From]; !ok || ids[r.To] == "" || !slices.Contains([]string{"DESCRIBES", "DEPENDS_ON"}, r.Type) {
			t.Errorf("relationship %+v is of unknown packages", r)
		}
	}
	folder := t.TempDir()
	run(t, folder, "tar", "-xzf", p.file("linux_amd64.tar.gz"), "--strip-components=1")
	built, err := buildinfo.ReadFile(filepath.Join(folder, "postrider"))
	if err != nil {
		t.Fatal(err)
	}
	// Postrider's and Go's
	if len(d.Packages) != len(built.Deps)+2 || len(d.Relationships) != len(d.Packages) {
		t.Errorf("%d packages and %d relationships for %d modules", len(d.Packages), len(d.Relationships), len(built.Deps))
	}
	if sum := digest(readFile(t, filepath.Join(folder, "postrider"))); d.Packages[0].Checksums[0].Value != strings.TrimPrefix(sum, "sha256:") {
		t.Errorf("the SBOM is of %v, the archive has %s", d.Packages[0].Checksums, sum)
	}
}

func TestModulesNeedAPermissiveLicence(t *testing.T) {
	t.Parallel()
	mit := "MIT License\n\nPermission is hereby granted, free of charge, to any person\nobtaining a copy of this software"
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  string // the licence; empty: it is refused
	}{
		{"a licence is known by its text", map[string]string{"LICENSE": mit}, "MIT"},
		{"its file has one of several names", map[string]string{"COPYING.md": mit}, "MIT"},
		{
			"two licences hold together",
			map[string]string{"LICENSE": mit + "\nLicensed under the Apache License, Version 2.0"},
			"MIT AND Apache-2.0",
		},
		{"a module without a text is refused", map[string]string{"README.md": mit}, ""},
		{"a text in a folder below is not the module's", map[string]string{"pkg/LICENSE": mit}, ""},
		{"another licence is refused", map[string]string{"LICENSE": "GNU GENERAL PUBLIC LICENSE Version 3"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			writeFile(t, filepath.Join(folder, "pkg", "doc.go"), nil)
			for name, text := range tt.files {
				writeFile(t, filepath.Join(folder, name), []byte(text))
			}
			l, err := readLicence("example.com/m", "v1.0.0", map[string]bool{filepath.Join(folder, "pkg"): true, folder: true}, folder)
			if l.id != tt.want || (err == nil) != (tt.want != "") {
				t.Errorf("readLicence = %q, %v, want %q", l.id, err, tt.want)
			}
		})
	}
}

// file returns the path of a file of the release.
func (p published) file(name string) string {
	return filepath.Join(p.dist, "postrider_1.9.7-rc.1_"+name)
}

// commitTree copies the files that git knows in this tree, or would add, into a new repository, and
// tags the commit there. So changes that are not committed yet are tested too, and a clone without
// tags or history is enough.
func commitTree(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	names := run(t, root, "git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	for name := range strings.SplitSeq(strings.TrimRight(names, "\x00"), "\x00") {
		body, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, os.ErrNotExist) {
			continue // removed, and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(folder, name), body)
	}
	git := func(args ...string) {
		cmd := exec.Command("git", append([]string{"-C", folder, "-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "gc.auto=0"},
			args...)...)
		cmd.Env = append(os.Environ(), "GIT_AUTHOR_DATE=2026-05-04T12:00:00Z", "GIT_COMMITTER_DATE=2026-05-04T12:00:00Z",
			"GIT_CONFIG_GLOBAL=/dev/null")
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, output)
		}
	}
	git("init", "-q")
	git("add", "--all")
	git("commit", "-q", "-m", "all")
	git("tag", testVersion)
	return folder
}

// run runs a program in a folder and returns its output. It must exit with 0.
func run(t *testing.T, folder, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = folder
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "POSTRIDER_") || strings.HasPrefix(v, "SOURCE_DATE_EPOCH=")
	})
	var output, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &complaint
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %v: %v\n%s%s", name, args, err, output.Bytes(), complaint.Bytes())
	}
	return output.String()
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	body, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func writeFile(t *testing.T, name string, body []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, body, 0o644); err != nil {
		t.Fatal(err)
	}
}

// untar unpacks a tar into a folder. If the test may change owners, the files get the owners of the
// tar.
func untar(t *testing.T, packed io.Reader, folder string) {
	t.Helper()
	for r := tar.NewReader(packed); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(folder, h.Name)
		mode := h.FileInfo().Mode()
		if h.Typeflag == tar.TypeDir {
			err = os.Mkdir(name, mode.Perm())
			if errors.Is(err, os.ErrExist) {
				err = nil
			}
		} else {
			var body []byte
			if body, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(name, body, mode.Perm())
			}
		}
		if err == nil && os.Getuid() == 0 {
			err = os.Chown(name, h.Uid, h.Gid)
		}
		if err == nil {
			err = os.Chmod(name, mode) // independent of the umask
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// gunzip returns a reader of compressed bytes.
func gunzip(t *testing.T, packed []byte) io.Reader {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(fmt.Errorf("gunzip: %w", err))
	}
	return r
}
