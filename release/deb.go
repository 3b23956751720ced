package main

import (
	"bytes"
	"cmp"
	"crypto/md5" // the format wants it; SHA256SUMS is what a person checks
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// maintainer is the person or group that the package names.
const maintainer = "Postrider maintainers <maintainers@postrider.invalid>"

// writeDeb writes the Debian package of a program. The format, deb(5), is an ar archive of three
// files. It is written here because dpkg-deb would need Debian for the build.
func (r *release) writeDeb(w io.Writer, p *program) error {
	files, err := r.debFiles(p)
	if err != nil {
		return err
	}
	data, err := packTar("./", files, r.time)
	if err != nil {
		return err
	}
	control, err := r.debControl(p, files)
	if err != nil {
		return err
	}
	packed, err := packTar("./", control, r.time)
	if err != nil {
		return err
	}
	return r.writeAr(w, []file{
		{name: "debian-binary", body: []byte("2.0\n")},
		{name: "control.tar.gz", body: packed},
		{name: "data.tar.gz", body: data},
	})
}

// writeAr writes an ar archive. It gzips the entries whose names end with .gz.
func (r *release) writeAr(w io.Writer, entries []file) error {
	archive := bytes.NewBufferString("!<arch>\n")
	for _, e := range entries {
		body := e.body
		if strings.HasSuffix(e.name, ".gz") {
			var err error
			if body, err = compress(body); err != nil {
				return err
			}
		}
		fmt.Fprintf(archive, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", e.name, r.time.Unix(), 0, 0, "100644", len(body))
		archive.Write(body)
		if len(body)%2 == 1 {
			archive.WriteByte('\n')
		}
	}
	_, err := w.Write(archive.Bytes())
	return err
}

// debVersion returns the version in Debian's form. A tilde sorts before the end of a version, so a
// pre-release is older than its release.
func (r *release) debVersion() string { return strings.Replace(r.number(), "-", "~", 1) }

// configuration is the file that the operator changes. dpkg keeps the operator's changes.
const configuration = "/etc/postrider/postrider.yaml"

// docFolder is the folder of the package's documentation.
const docFolder = "usr/share/doc/postrider/"

// debFiles returns the files that the package installs.
func (r *release) debFiles(p *program) ([]file, error) {
	wanted := map[string]string{
		"deploy/systemd/postrider.service":  "usr/lib/systemd/system/postrider.service",
		"deploy/systemd/postrider.sysusers": "usr/lib/sysusers.d/postrider.conf",
		"deploy/systemd/postrider.yaml":     configuration[1:],
		"deploy/deb/lintian-overrides":      "usr/share/lintian/overrides/postrider",
		"deploy/deb/copyright":              docFolder + "copyright",
		"README.md":                         docFolder + "README.md",
	}
	files, err := r.read(wanted, 0o644)
	if err != nil {
		return nil, err
	}
	handbook, err := r.readFolder("docs/operate", docFolder+"docs/operate")
	if err != nil {
		return nil, err
	}
	files = append(files, handbook...)
	changes, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if err != nil {
		return nil, err
	}
	entry := fmt.Sprintf("postrider (%s) stable; urgency=medium\n\n  * Version %s; see CHANGELOG.md.gz.\n\n -- %s  %s\n",
		r.debVersion(), r.number(), maintainer, r.time.Format(time.RFC1123Z))
	for name, text := range map[string]string{
		"changelog.gz": entry, "CHANGELOG.md.gz": string(changes),
		"THIRD_PARTY_LICENSES.gz": thirdParties(p.licences),
	} {
		body, err := compress([]byte(text))
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: docFolder + name, mode: 0o644, body: body})
	}
	files = append(files, file{name: "usr/bin/postrider", mode: 0o755, body: p.binary})
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.name, b.name) })
	return files, nil
}

// debControl returns the files for dpkg: the description of the package, its scripts, the
// checksums, and the list of configuration files.
func (r *release) debControl(p *program, files []file) ([]file, error) {
	var sums bytes.Buffer
	size := 0
	for _, f := range files {
		if "/"+f.name != configuration { // no checksum, since the operator changes this file
			fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(f.body), f.name)
		}
		size += (len(f.body) + 1023) / 1024
	}
	text := fmt.Sprintf(`Package: postrider
Version: %s
Architecture: %s
Maintainer: %s
Installed-Size: %d
Depends: systemd | systemd-standalone-sysusers
Recommends: ca-certificates
Suggests: postgresql
Section: net
Priority: optional
Homepage: https://github.com/postrider/postrider
Description: sender of webhooks, durable and signed
 Postrider stores the events of a platform and delivers each one, signed, to
 every endpoint that subscribed, until the endpoint accepts it or a person
 decides. It needs nothing else on one machine, or PostgreSQL on several.
`, r.debVersion(), p.arch, maintainer, size)
	scripts, err := r.read(map[string]string{"deploy/deb/postinst": "postinst", "deploy/deb/prerm": "prerm", "deploy/deb/postrm": "postrm"},
		0o755)
	return append(scripts,
		file{name: "control", mode: 0o644, body: []byte(text)},
		file{name: "md5sums", mode: 0o644, body: sums.Bytes()},
		file{name: "conffiles", mode: 0o644, body: []byte(configuration + "\n")},
	), err
}
