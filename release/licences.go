package main

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// licence is the licence of one linked module.
type licence struct {
	module, version string
	id              string   // SPDX expression of the licence
	texts           []string // each starts with the name of its file
}

// linkedPackages is a template for go list. It prints a line for each package of another module.
const linkedPackages = `{{with .Module}}{{if not .Main}}{{.Path}}{{"\t"}}{{.Version}}{{"\t"}}{{.Dir}}{{"\t"}}{{$.Dir}}{{end}}{{end}}`

// findLicences returns the licences of everything that is linked into a program: of Go, and of each
// module that the toolchain recorded. It reads the folders of the linked packages and the folders
// above them, because a package can have a licence of its own.
func (r *release) findLicences(ctx context.Context, p *program) ([]licence, error) {
	goroot, err := r.command(ctx, &p.target, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	root := strings.TrimSpace(goroot)
	own, err := readLicence("std", p.info.GoVersion, map[string]bool{root: true}, root)
	if err != nil {
		return nil, err
	}
	found := []licence{own}
	listed, err := r.command(ctx, &p.target, "go", "list", "-deps", "-f", linkedPackages, "./cmd/postrider")
	if err != nil {
		return nil, err
	}
	folders, packages := map[string]string{}, map[string]map[string]bool{}
	for line := range strings.Lines(listed) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if len(fields) != 4 {
			continue
		}
		module := fields[0] + " " + fields[1]
		folders[module] = fields[2]
		if packages[module] == nil {
			packages[module] = map[string]bool{}
		}
		packages[module][fields[3]] = true
	}
	for _, module := range p.info.Deps {
		name := module.Path + " " + module.Version
		l, err := readLicence(module.Path, module.Version, packages[name], folders[name])
		if err != nil {
			return nil, err
		}
		found = append(found, l)
	}
	return found, nil
}

var (
	// licenceFile matches the names of files that must be passed on with the code.
	licenceFile = regexp.MustCompile(`(?i)licen[cs]e|^(copying|copyright|notice|patents)`)
	// mainLicence matches the name of the file with the licence of a module.
	mainLicence = regexp.MustCompile(`(?i)^(licen[cs]e|copying)(\.md|\.txt)?$`)
)

// readLicence reads the licence of one module: the files in its folder, and in the folders from
// there to each of its linked packages.
func readLicence(module, version string, packages map[string]bool, folder string) (licence, error) {
	l := licence{module: module, version: version}
	if folder == "" {
		return l, fmt.Errorf("module %s %s: go list knows no folder of it", module, version)
	}
	above := map[string]bool{folder: true}
	for p := range packages {
		for ; len(p) > len(folder); p = filepath.Dir(p) {
			above[p] = true
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(above)) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return l, err
		}
		for _, e := range entries {
			if !e.Type().IsRegular() || !licenceFile.MatchString(e.Name()) || path.Ext(e.Name()) == ".go" {
				continue
			}
			if err := l.add(folder, filepath.Join(dir, e.Name())); err != nil {
				return l, err
			}
		}
	}
	if l.id == "" {
		return l, fmt.Errorf("module %s %s has no licence text", module, version)
	}
	return l, nil
}

// add adds the text of one file. The main licence file in the module's folder sets the id.
func (l *licence) add(folder, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	name, err := filepath.Rel(folder, file)
	if err != nil {
		return err
	}
	l.texts = append(l.texts, filepath.ToSlash(name)+"\n\n"+strings.TrimSpace(string(text)))
	if filepath.Dir(file) != folder || !mainLicence.MatchString(filepath.Base(file)) {
		return nil
	}
	if l.id = identify(string(text)); l.id == "" {
		return fmt.Errorf("module %s %s: the licence in %s is none that may be linked: %w", l.module, l.version, name, fs.ErrPermission)
	}
	return nil
}

// permissive are the licences that a linked module may have. Each has a sentence that only its text
// has, with single spaces.
var permissive = []struct{ id, sentence string }{
	{"MIT", "Permission is hereby granted, free of charge, to any person obtaining a copy"},
	{"Apache-2.0", "Apache License, Version 2.0"},
	{"Apache-2.0", "Apache License Version 2.0, January 2004"},
	{"BSD-3-Clause", "may be used to endorse or promote products derived from this software without specific prior written permission"},
	{"ISC", "Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee"},
}

// identify returns the SPDX expression for the text of a licence; empty if the licence is not
// permissive. If a text has several licences, all of them apply.
func identify(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	var ids []string
	for _, p := range permissive {
		if strings.Contains(text, p.sentence) && !slices.Contains(ids, p.id) {
			ids = append(ids, p.id)
		}
	}
	redistributes := strings.Contains(text, "Redistribution and use in source and binary forms, with or without modification, are permitted")
	if redistributes && !slices.Contains(ids, "BSD-3-Clause") {
		ids = append(ids, "BSD-2-Clause")
	}
	return strings.Join(ids, " AND ")
}

// thirdParties returns the text of a release about its linked modules and their licences.
func thirdParties(licences []licence) string {
	var text strings.Builder
	text.WriteString("Postrider contains these modules of others, under the licences that follow.\n\n")
	for _, l := range licences {
		fmt.Fprintf(&text, "%s %s: %s\n", l.module, l.version, l.id)
	}
	for _, l := range licences {
		for _, t := range l.texts {
			fmt.Fprintf(&text, "\n%s\n%s %s: %s\n", strings.Repeat("=", 80), l.module, l.version, t)
		}
	}
	return text.String()
}
