package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
)

// program is the program, built for one target.
type program struct {
	target
	binary   []byte
	info     *buildinfo.BuildInfo // what the toolchain noted in the binary
	licences []licence            // of what is linked into it, by module; the first is Go's
}

// build builds the program. No C compiler takes part, so the binary is static. No
// path of this machine is in it: -trimpath. Symbols for debuggers are left out, -s
// -w; panics and profiles name functions and lines all the same.
//
// Go notes the tag of the commit as the version. It takes no tag that does not fit the
// module, such as v2.0.0 for a path without /v2.
func (r *release) build(ctx context.Context, t target) (*program, error) {
	folder, err := os.MkdirTemp("", "postrider-release-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "postrider")
	if _, err := r.command(ctx, &t, "go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", file, "./cmd/postrider"); err != nil {
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
