package postrider_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The house is every Go file of the module, parsed. The tests below check the rules of
// CONTRIBUTING.md that a compiler does not check. Each test says why its rule exists.
type house struct {
	files []*houseFile
}

type houseFile struct {
	*ast.File
	path   string // relative to the root of the repository
	folder string // "" is the root
	test   bool
	lines  int
	fset   *token.FileSet
}

// at returns the place of n in the form file:line.
func (f *houseFile) at(n ast.Node) string {
	p := f.fset.Position(n.Pos())
	return f.path + ":" + strconv.Itoa(p.Line)
}

func openHouse(t *testing.T) house {
	t.Helper()
	var h house
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (d.Name() == "testdata" || d.Name() == "tools" || d.Name()[0] == '.'):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		parsed, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		f := &houseFile{
			File: parsed, path: name, folder: strings.TrimPrefix(path.Dir(name), "."),
			test: strings.HasSuffix(name, "_test.go"), fset: fset,
			lines: fset.File(parsed.FileStart).LineCount(),
		}
		if !ast.IsGenerated(parsed) {
			h.files = append(h.files, f)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("read the house: %v", err)
	}
	return h
}

// A nodeRule checks every node of every file that it applies to.
type nodeRule struct {
	name   string
	why    string
	exempt func(*houseFile) bool
	broken func(ast.Node) bool
}

func nowhereExempt(*houseFile) bool { return false }

// inside returns a condition that is true for files in the places and in folders below them. The
// place "test" stands for all test files.
func inside(places ...string) func(*houseFile) bool {
	return func(f *houseFile) bool {
		for _, place := range places {
			if place == "test" && f.test || f.folder == place || strings.HasPrefix(f.folder, place+"/") {
				return true
			}
		}
		return false
	}
}

var nodeRules = []nodeRule{
	{
		"no init", "what happens at import cannot be passed an argument", nowhereExempt,
		func(n ast.Node) bool {
			f, ok := n.(*ast.FuncDecl)
			return ok && f.Recv == nil && f.Name.Name == "init"
		},
	},
	{
		"no go statement", "whoever starts a goroutine waits for it: sync.WaitGroup.Go or errgroup", nowhereExempt,
		func(n ast.Node) bool { _, ok := n.(*ast.GoStmt); return ok },
	},
	{
		"no time.Sleep", "a sleep hears no cancellation, and in a test it is a guess; in a synctest bubble it is exact",
		func(f *houseFile) bool { return f.test && importsAny(f, "testing/synctest") },
		func(n ast.Node) bool { return selects(n, "time", "Sleep") },
	},
	{
		"no context.Background", "take a context; a program has the only root",
		inside("cmd", "bench", "release", "internal/app", "internal/testkit/mailbox", "outboxtest", "receiver/example", "test"),
		func(n ast.Node) bool { return selects(n, "context", "Background", "TODO") },
	},
	{
		"only egress dials",
		"there is one guard, so there is one door; peers goes to nodes of the store, client and bench to the server, testkit to what a test started",
		inside("internal/egress", "internal/peers", "client", "bench", "internal/testkit", "test"),
		func(n ast.Node) bool {
			return selects(n, "net", "Dial", "DialTimeout", "Dialer", "DialTCP", "DialUDP") || selects(n, "tls", "Dial", "Dialer") ||
				selects(n, "http", "Client", "Transport", "DefaultClient", "DefaultTransport", "Get", "Post", "PostForm", "Head")
		},
	},
	{
		"only app and programs read the environment and flags", "a setting that is read elsewhere is in no help and no file",
		inside("internal/app", "cmd", "bench", "release", "receiver/example", "internal/testkit", "test"),
		func(n ast.Node) bool {
			return selects(n, "os", "Getenv", "LookupEnv", "Environ", "ExpandEnv", "Args") || imports(n, "flag")
		},
	},
	{
		`no "failed to"`, "an error says what was being done, so that a chain of them reads as a path",
		func(f *houseFile) bool { return f.path == "house_test.go" },
		func(n ast.Node) bool {
			l, ok := n.(*ast.BasicLit)
			return ok && l.Kind == token.STRING && strings.Contains(strings.ToLower(l.Value), "failed to")
		},
	},
}

// selects reports whether n is pkg.name for one of the names.
func selects(n ast.Node, pkg string, names ...string) bool {
	s, ok := n.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	if !ok || x.Name != pkg {
		return false
	}
	return slices.Contains(names, s.Sel.Name)
}

func importsAny(f *houseFile, pkg string) bool {
	for _, spec := range f.Imports {
		if imports(spec, pkg) {
			return true
		}
	}
	return false
}

func imports(n ast.Node, pkg string) bool {
	i, ok := n.(*ast.ImportSpec)
	return ok && i.Path.Value == `"`+pkg+`"`
}

func TestHouseRules(t *testing.T) {
	t.Parallel()
	h := openHouse(t)
	for _, rule := range nodeRules {
		t.Run(rule.name, func(t *testing.T) {
			t.Parallel()
			for _, f := range h.files {
				if rule.exempt(f) {
					continue
				}
				ast.Inspect(f.File, func(n ast.Node) bool {
					if n != nil && rule.broken(n) {
						t.Errorf("%s: %s: %s", f.at(n), rule.name, rule.why)
					}
					return true
				})
			}
		})
	}
}

// The limits on the size of files and functions, tests included. If a file or function is too
// large, a second thing in it usually needs a name.
func TestHouseSizes(t *testing.T) {
	t.Parallel()
	const fileLines, functionLines = 600, 80
	for _, f := range openHouse(t).files {
		if f.lines > fileLines {
			t.Errorf("%s has %d lines, more than %d", f.path, f.lines, fileLines)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := f.fset.Position(fn.End()).Line - f.fset.Position(fn.Pos()).Line + 1; n > functionLines {
				t.Errorf("%s: %s has %d lines, more than %d", f.at(fn), fn.Name.Name, n, functionLines)
			}
		}
	}
}

// The promises of a package are in one place: the file with the package's name.
func TestHouseHasOneDocPerPackage(t *testing.T) {
	t.Parallel()
	docs := map[string][]string{}
	for _, f := range openHouse(t).files {
		if f.test {
			continue
		}
		docs[f.folder] = append(docs[f.folder], "")[:len(docs[f.folder])]
		if f.Doc == nil {
			continue
		}
		docs[f.folder] = append(docs[f.folder], f.path)
		if want := path.Join(f.folder, f.Name.Name+".go"); f.path != want {
			t.Errorf("%s has the doc of package %s, which belongs into %s", f.path, f.Name.Name, want)
		}
		if opening := docOpening(f); !strings.HasPrefix(f.Doc.Text(), opening) {
			t.Errorf("%s: the package's doc does not start with %q", f.path, opening)
		}
	}
	for folder, files := range docs {
		if len(files) != 1 {
			t.Errorf("package %q has %d docs, want 1: %v", folder, len(files), files)
		}
	}
}

// docOpening returns the words with which godoc expects the package comment to begin.
func docOpening(f *houseFile) string {
	if f.Name.Name == "main" {
		return "Command " + path.Base(f.folder) + " "
	}
	return "Package " + f.Name.Name + " "
}

// Every exported name has a comment that begins with the name.
func TestHouseDocumentsItsExports(t *testing.T) {
	t.Parallel()
	for _, f := range openHouse(t).files {
		if f.test || f.Name.Name == "main" {
			continue
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && exportedReceiver(d) && !opens(d.Doc, d.Name.Name) {
					t.Errorf("%s: %s has no comment that starts with its name", f.at(d), d.Name.Name)
				}
			case *ast.GenDecl:
				checkGroupDocs(t, f, d)
			}
		}
	}
}

// checkGroupDocs requires a comment for each exported name of a declaration, or one comment for its
// group.
func checkGroupDocs(t *testing.T, f *houseFile, d *ast.GenDecl) {
	t.Helper()
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			alone := !d.Lparen.IsValid()
			if s.Name.IsExported() && alone && !opens(d.Doc, s.Name.Name) {
				t.Errorf("%s: %s has no comment that starts with its name", f.at(s), s.Name.Name)
			}
			if s.Name.IsExported() && !alone && s.Doc == nil && d.Doc == nil {
				t.Errorf("%s: %s has no comment", f.at(s), s.Name.Name)
			}
		case *ast.ValueSpec:
			for _, name := range s.Names {
				if name.IsExported() && s.Doc == nil && s.Comment == nil && d.Doc == nil {
					t.Errorf("%s: %s has no comment", f.at(s), name.Name)
				}
			}
		}
	}
}

func opens(doc *ast.CommentGroup, name string) bool {
	if doc == nil {
		return false
	}
	text := doc.Text()
	for _, article := range []string{"A ", "An ", "The "} {
		text = strings.TrimPrefix(text, article)
	}
	return strings.HasPrefix(text, name)
}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	exported := true
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if ok {
			exported = id.IsExported()
		}
		return !ok && n != nil
	})
	return exported
}

// TestHousePromisesHaveTests requires a test for each promise of the README, named after it: a
// function TestPromise<n>… or a script promise-<n>-….
func TestHousePromisesHaveTests(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(readme), "\n## Promises\n")
	text, _, _ = strings.Cut(text, "\n## ")
	promises := regexp.MustCompile(`(?m)^(\d+)\. .*$`).FindAllStringSubmatch(text, -1)
	if len(promises) != 15 {
		t.Fatalf("the README makes %d promises, want the fifteen of the design", len(promises))
	}
	kept := promisesWithTests(t)
	for _, p := range promises {
		if !kept[p[1]] {
			t.Errorf("no test is named after promise %q", p[0])
		}
	}
}

func promisesWithTests(t *testing.T) map[string]bool {
	t.Helper()
	kept := map[string]bool{}
	named := regexp.MustCompile(`^TestPromise(\d+)[A-Z]`)
	for _, f := range openHouse(t).files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && f.test {
				if found := named.FindStringSubmatch(fn.Name.Name); found != nil {
					kept[found[1]] = true
				}
			}
		}
	}
	scripts, err := filepath.Glob("cmd/postrider/testdata/script/promise-*-*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, script := range scripts {
		kept[strings.Split(filepath.Base(script), "-")[1]] = true
	}
	return kept
}
