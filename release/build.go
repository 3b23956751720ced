package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
)

// program is the program after it was built for one target.
type program struct {
	target
	binary   []byte
	info     *buildinfo.BuildInfo // what the Go toolchain recorded in the binary
	licences []licence            // licences of the linked modules; the first one is Go's
}

// build builds the program. It uses no C compiler, so the binary is static. With -trimpath, the
// binary contains no path of this machine. -s -w leaves out the symbols for debuggers; panics and
// profiles still name functions and lines.
//
// Go records the tag of the commit as the version. It ignores a tag that does not fit the module,
// such as v2.0.0 for a path without /v2.
func (r *release) build(ctx context.Context, t target) (*program, error) {
	folder, err := os.MkdirTemp("", "postrider-release-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "postrider")
	if _, err := r.command(ctx, &t, "go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", file,
		"./cmd/postrider"); err != nil {
		return nil, err
	}
	p := &program{target: t}
	if p.info, err = buildinfo.ReadFile(file); err != nil {
		return nil, fmt.Errorf("read what the toolchain noted: %w", err)
	}
	if p.info.Main.Version != r.version {
		return nil, fmt.Errorf("the toolchain says that this is %s, not %s", p.info.Main.Version, r.version)
	}
	if p.binary, err = os.ReadFile(file); err != nil {
		return nil, err
	}
	p.licences, err = r.findLicences(ctx, p)
	return p, err
}
