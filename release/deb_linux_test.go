package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// checkDeb installs the package into a folder with dpkg, and removes it again. dpkg runs the
// scripts of the package with DPKG_ROOT, so nothing changes on this machine.
func (p published) checkDeb(t *testing.T) {
	deb := p.file("amd64.deb")
	if got := run(t, "", "dpkg-deb", "--field", deb, "Version"); got != "1.9.7~rc.1\n" {
		t.Errorf("Version = %q", got)
	}
	run(t, "", "dpkg", "--compare-versions", "1.9.7~rc.1", "lt", "1.9.7")
	root := t.TempDir()
	for _, folder := range []string{"info", "updates", "triggers"} {
		if err := os.MkdirAll(filepath.Join(root, "var/lib/dpkg", folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, filepath.Join(root, "var/lib/dpkg/status"), nil)
	dpkg := func(args ...string) string {
		// The folder has no other packages, so the dependencies of this one are missing.
		return run(t, "", "dpkg",
			append([]string{"--root=" + root, "--force-script-chrootless", "--force-depends", "--force-not-root", "--log=/dev/null"}, args...)...)
	}
	dpkg("--install", deb)
	if users := string(readFile(t, filepath.Join(root, "etc/passwd"))); !strings.Contains(users, "\npostrider:") &&
		!strings.HasPrefix(users, "postrider:") {
		t.Errorf("no user postrider in %q", users)
	}
	program, config := filepath.Join(root, "usr/bin/postrider"), filepath.Join(root, "etc/postrider/postrider.yaml")
	if said := run(t, root, program, "version"); !strings.HasPrefix(said, "postrider "+testVersion+",") {
		t.Errorf("postrider version = %q", said)
	}
	if settings := run(t, root, program, "config", "check", "--config", config); !strings.Contains(settings, "/var/lib/postrider") {
		t.Errorf("the settings of the package:\n%s", settings)
	}
	listed := strings.Split(dpkg("--listfiles", "postrider"), "\n")
	for _, name := range []string{
		"/usr/lib/systemd/system/postrider.service", "/usr/lib/sysusers.d/postrider.conf", "/usr/share/doc/postrider/copyright",
		"/usr/share/doc/postrider/THIRD_PARTY_LICENSES.gz", "/usr/share/doc/postrider/docs/operate/install.md",
	} {
		if !slices.Contains(listed, name) {
			t.Errorf("the package has no %s:\n%s", name, listed)
		}
	}
	if changed := dpkg("--verify", "postrider"); changed != "" {
		t.Errorf("the sums of the package are wrong:\n%s", changed)
	}

	// The operator's changes survive a removal, and are deleted by a purge. Data stay.
	writeFile(t, config, []byte("listen: 127.0.0.1:18080\n"))
	writeFile(t, filepath.Join(root, "var/lib/postrider/admin.key"), []byte("kept"))
	dpkg("--remove", "postrider")
	if _, err := os.Stat(program); !os.IsNotExist(err) {
		t.Errorf("the program is still there: %v", err)
	}
	if text := readFile(t, config); string(text) != "listen: 127.0.0.1:18080\n" {
		t.Errorf("the configuration is %q after a removal", text)
	}
	if said := dpkg("--purge", "postrider"); !strings.Contains(said, "/var/lib/postrider is kept") {
		t.Errorf("a purge says %q", said)
	}
	if _, err := os.Stat(config); !os.IsNotExist(err) {
		t.Errorf("the configuration is still there: %v", err)
	}
	readFile(t, filepath.Join(root, "var/lib/postrider/admin.key"))

	t.Run("lintian finds nothing", func(t *testing.T) {
		t.Log(run(t, "", "lintian", "--allow-root", "--fail-on=error,warning", "--tag-display-limit=0", deb))
	})
}

// TestUnitIsHardened lets systemd analyze the unit. The exposure is 0.0 to 10.0; a unit without any
// setting has 9.6.
func TestUnitIsHardened(t *testing.T) {
	t.Parallel()
	const unit = "../deploy/systemd/postrider.service"
	output := run(t, "", "systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=15", unit)
	lines := strings.Split(strings.TrimSpace(output), "\n")
	t.Log(lines[len(lines)-1])

	root := t.TempDir()
	writeFile(t, filepath.Join(root, "etc/systemd/system/postrider.service"), readFile(t, unit))
	writeFile(t, filepath.Join(root, "usr/bin/postrider"), nil)
	if err := os.Chmod(filepath.Join(root, "usr/bin/postrider"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{
		"sysinit.target", "basic.target", "shutdown.target", "multi-user.target", "network-online.target",
		"system.slice", "-.slice", "tmp.mount", "-.mount",
	} {
		body := "[Unit]\nDescription=Stub\n"
		if strings.HasSuffix(target, ".mount") {
			continue
		}
		writeFile(t, filepath.Join(root, "usr/lib/systemd/system", target), []byte(body))
	}
	if said := run(t, "", "systemd-analyze", "verify", "--root="+root, "--man=no", "postrider.service"); said != "" {
		t.Errorf("systemd-analyze verify: %s", said)
	}
}
