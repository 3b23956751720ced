package main

import (
	"crypto/fips140"
	"fmt"
	"runtime/debug"

	"github.com/alecthomas/kong"

	"github.com/postrider/postrider/internal/app"
)

type versionCmd struct {
	noSettings

	JSON bool `name:"json" help:"Print the result as JSON."`
}

// versionFlag is the flag --version, which does the same as the command version. It exists because
// people try it first.
type versionFlag bool

// BeforeReset prints the version and exits. kong calls it before it checks the rest of the command
// line, so --version works without a command.
func (versionFlag) BeforeReset(k *kong.Kong, t terminal) error {
	if err := new(versionCmd).Run(t); err != nil {
		return err
	}
	k.Exit(0)
	return nil
}

// build is what the Go toolchain recorded about this binary.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // revision of the repository; empty: not recorded
	Time     string `json:"time,omitempty"`     // time of the revision, RFC 3339
	Modified bool   `json:"modified,omitempty"` // the working tree had uncommitted changes
	Go       string `json:"go"`
	FIPS     string `json:"fips140,omitempty"` // version of the cryptographic module; empty: FIPS 140-3 mode is off
}

// Run prints the version.
func (c *versionCmd) Run(t terminal) error {
	b := build{Version: app.Version()}
	if noted, ok := debug.ReadBuildInfo(); ok {
		b.Go = noted.GoVersion
		for _, s := range noted.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Revision = s.Value
			case "vcs.time":
				b.Time = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	mode := ""
	if fips140.Enabled() {
		b.FIPS = fips140.Version()
		mode = ", FIPS 140-3 mode, module " + b.FIPS
	}
	if c.JSON {
		return printJSON(t.out, b)
	}
	_, err := fmt.Fprintf(t.out, "postrider %s, revision %s, %s%s\n", b.Version, b.revision(), b.Go, mode)
	return err
}

// revision returns the revision, its time, and whether the working tree was changed.
func (b build) revision() string {
	if b.Revision == "" {
		return "unknown"
	}
	text := b.Revision
	if b.Time != "" {
		text += " of " + b.Time
	}
	if b.Modified {
		text += " with changes"
	}
	return text
}
