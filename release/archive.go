package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// file is an entry of an archive. If its name ends with a slash, it is a folder.
type file struct {
	name  string // without a slash at its start
	mode  int64
	owner int // id of the user and of the group
	body  []byte
}

// packTar returns a tar of the files, sorted by name. It adds the folders above the files if they
// are missing. All entries have the same time. If owner is 0, root owns the entry.
func packTar(prefix string, files []file, when time.Time) ([]byte, error) {
	all := map[string]file{}
	for _, f := range files {
		all[f.name] = f
		for dir := path.Dir(strings.TrimSuffix(f.name, "/")); dir != "."; dir = path.Dir(dir) {
			if _, ok := all[dir+"/"]; !ok {
				all[dir+"/"] = file{name: dir + "/", mode: 0o755}
			}
		}
	}
	// A folder of the caller keeps its own mode, even if a file below it was added before.
	for _, f := range files {
		all[f.name] = f
	}
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		f := all[name]
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: prefix + name, Mode: f.mode, Uid: f.owner, Gid: f.owner,
			Size: int64(len(f.body)), ModTime: when, Format: tar.FormatUSTAR,
		}
		if strings.HasSuffix(name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if f.owner == 0 {
			h.Uname, h.Gname = "root", "root"
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.body); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return packed.Bytes(), err
}

// compress returns the bytes gzipped. The gzip header has no name and no time.
func compress(body []byte) ([]byte, error) {
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(body); err != nil {
		return nil, err
	}
	err = w.Close()
	return packed.Bytes(), err
}

// read returns files of the repository as entries of an archive. wanted maps the path in the
// repository to the name in the archive.
func (r *release) read(wanted map[string]string, mode int64) ([]file, error) {
	var files []file
	for source, name := range wanted {
		body, err := os.ReadFile(filepath.Join(r.root, filepath.FromSlash(source)))
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: name, mode: mode, body: body})
	}
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.name, b.name) })
	return files, nil
}

// readFolder returns the files below the folder source of the repository as entries below name. A
// symbolic link becomes the file that it points to. Tests are left out.
func (r *release) readFolder(source, name string) ([]file, error) {
	wanted, root := map[string]string{}, filepath.Join(r.root, filepath.FromSlash(source))
	err := filepath.WalkDir(root, func(found string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(found, "_test.yml") {
			return err
		}
		below, err := filepath.Rel(root, found)
		wanted[path.Join(source, filepath.ToSlash(below))] = path.Join(name, filepath.ToSlash(below))
		return err
	})
	if err != nil {
		return nil, err
	}
	return r.read(wanted, 0o644)
}

// writeChart writes the Helm chart in the format of helm package, with the version of the release.
func (r *release) writeChart(w io.Writer) error {
	files, err := r.readFolder("deploy/helm/postrider", "postrider")
	if err != nil {
		return err
	}
	for i, f := range files {
		if f.name == "postrider/Chart.yaml" {
			files[i].body = bytes.ReplaceAll(f.body, []byte("ersion: 0.0.0\n"), []byte("ersion: "+r.number()+"\n"))
		}
	}
	return r.writePacked(w, files)
}

// writePacked writes the files as a gzipped tar.
func (r *release) writePacked(w io.Writer, files []file) error {
	packed, err := packTar("", files, r.time)
	if err != nil {
		return err
	}
	if packed, err = compress(packed); err != nil {
		return err
	}
	_, err = w.Write(packed)
	return err
}

// writeArchive writes the archive of a program: one folder with everything that a person without
// the repository needs.
func (r *release) writeArchive(w io.Writer, p *program) error {
	folder := "postrider_" + r.number() + "/"
	files, err := r.read(map[string]string{
		"LICENSE": folder + "LICENSE", "README.md": folder + "README.md", "CHANGELOG.md": folder + "CHANGELOG.md",
		"deploy/systemd/postrider.service": folder + "postrider.service", "deploy/systemd/postrider.sysusers": folder + "postrider.sysusers",
		"deploy/systemd/postrider.yaml": folder + "postrider.yaml", "deploy/compose.yaml": folder + "compose.yaml",
	}, 0o644)
	if err != nil {
		return err
	}
	for source, name := range map[string]string{
		// The path is the same as in the repository, so that links between the pages work.
		"docs/operate": "docs/operate",
		// These are beside compose.yaml, which mounts them.
		"deploy/prometheus": "prometheus", "deploy/grafana": "grafana",
	} {
		more, err := r.readFolder(source, folder+name)
		if err != nil {
			return err
		}
		files = append(files, more...)
	}
	files = append(files,
		file{name: folder + "postrider", mode: 0o755, body: p.binary},
		file{name: folder + "THIRD_PARTY_LICENSES", mode: 0o644, body: []byte(thirdParties(p.licences))})
	return r.writePacked(w, files)
}
