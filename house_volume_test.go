package postrider_test

import (
	"cmp"
	"go/ast"
	"go/scanner"
	"go/token"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// The budgets of the house. A change that makes the house smaller lowers them. An ADR raises
// one, and says why.
const (
	budgetLines   = 68_451  // of product code, without blanks and comments
	budgetTokens  = 521_460 // of product code, without comments
	budgetColumns = 1_599   // lines of Go that are longer than columns
)

// longestFunction is how many lines a function of the product may have.
const longestFunction = 60

// columns is how long a line of Go should be at most. A tab counts as one.
const columns = 140

// besideTheProduct are the folders of programs and packages that no user runs.
var besideTheProduct = inside("test", "bench", "release", "contract", "internal/testkit", "internal/store/storetest", "internal/store/memory")

// volume is how much code a file or a package has.
type volume struct{ lines, tokens int }

// volumeOf counts the lines that have a token, and the tokens. A string of several lines
// counts the lines that are not blank.
func volumeOf(t *testing.T, name string) volume {
	t.Helper()
	source, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var s scanner.Scanner
	file := token.NewFileSet().AddFile(name, -1, len(source))
	s.Init(file, source, nil, 0)
	lines, tokens := map[int]bool{}, 0
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return volume{len(lines), tokens}
		}
		if tok == token.SEMICOLON && text != ";" { // the end of a line
			continue
		}
		tokens++
		for i, line := range strings.Split(text, "\n") {
			if i == 0 || strings.TrimSpace(line) != "" {
				lines[file.Line(pos)+i] = true
			}
		}
	}
}

// TestHouseKeepsItsBudget counts the product: what users run, and what is compiled into it.
func TestHouseKeepsItsBudget(t *testing.T) {
	t.Parallel()
	var all volume
	packages, long := map[string]volume{}, 0
	for _, f := range openHouse(t).files {
		long += longLines(t, f.path)
		if besideTheProduct(f) {
			continue
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				if n := f.fset.Position(fn.End()).Line - f.fset.Position(fn.Pos()).Line + 1; n > longestFunction {
					t.Errorf("%s: function %s has %d lines, more than %d", f.at(fn), fn.Name.Name, n, longestFunction)
				}
			}
		}
		v := volumeOf(t, f.path)
		all.lines, all.tokens = all.lines+v.lines, all.tokens+v.tokens
		p := packages[f.folder]
		packages[f.folder] = volume{p.lines + v.lines, p.tokens + v.tokens}
	}
	t.Logf("%d lines of code, %d tokens; %d lines of Go are over %d columns", all.lines, all.tokens, long, columns)
	largest := slices.SortedFunc(maps.Keys(packages), func(a, b string) int { return cmp.Compare(packages[b].lines, packages[a].lines) })
	for _, folder := range largest[:10] {
		t.Logf("%6d lines %7d tokens  %s", packages[folder].lines, packages[folder].tokens, path.Join(".", folder))
	}
	for _, b := range []struct {
		what         string
		have, budget int
	}{
		{"lines of product code", all.lines, budgetLines},
		{"tokens of product code", all.tokens, budgetTokens},
		{"lines of Go that are too long", long, budgetColumns},
	} {
		if b.have > b.budget {
			t.Errorf("%d %s, over the budget of %d: what could go?", b.have, b.what, b.budget)
		}
	}
}

func longLines(t *testing.T, name string) (n int) {
	t.Helper()
	source, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(source)) {
		if len([]rune(strings.TrimSuffix(line, "\n"))) > columns {
			n++
		}
	}
	return n
}

// width is how many methods an interface may have, those of embedded ones included.
const width = 9

// wide are the interfaces that are wider, and how wide they may be. store.Store is the list of all
// roles, which app opens; storetest has the same. No other may be added, and none may get wider.
var wide = map[string]int{
	"internal/store.Store":               125,
	"internal/store/storetest.NodeStore": 131,

	"internal/janitor.Store": 27,
	"internal/expunge.Store": 17,
	"internal/archive.Store": 15,
	"internal/store.Upkeep":  10,
}

// TestHouseInterfacesAreSmall counts the methods of each interface with those of what it embeds.
func TestHouseInterfacesAreSmall(t *testing.T) {
	t.Parallel()
	interfaces := map[string]*ast.InterfaceType{} // by folder.Name
	for _, f := range openHouse(t).files {
		if f.test {
			continue
		}
		ast.Inspect(f.File, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if i, ok := spec.Type.(*ast.InterfaceType); ok {
					interfaces[f.folder+"."+spec.Name.Name] = i
				}
			}
			return true
		})
	}
	for name := range interfaces {
		most := cmp.Or(wide[name], width)
		if n := methodsOf(interfaces, name); n > most {
			t.Errorf("interface %s has %d methods with those that it embeds, more than %d", name, n, most)
		} else if n <= width && wide[name] > 0 {
			t.Errorf("interface %s has %d methods: it is no exception any more", name, n)
		}
	}
}

// methodsOf counts the methods of an interface. One of the standard library that it embeds counts as one.
func methodsOf(interfaces map[string]*ast.InterfaceType, name string) (n int) {
	known, ok := interfaces[name]
	if !ok {
		return 1
	}
	folder, _, _ := strings.Cut(name, ".")
	for _, m := range known.Methods.List {
		switch embedded := m.Type.(type) {
		case *ast.Ident:
			n += methodsOf(interfaces, folder+"."+embedded.Name)
		case *ast.SelectorExpr:
			of, _ := embedded.X.(*ast.Ident)
			n += methodsOf(interfaces, "internal/"+of.Name+"."+embedded.Sel.Name)
		default:
			n += len(m.Names)
		}
	}
	return n
}
