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
	"unicode/utf8"
)

// The budgets of the house. A change that makes the house smaller lowers them. Raising one needs an
// ADR with the reason.
const (
	budgetLines   = 81_064  // of product code, without blanks and comments
	budgetTokens  = 616_669 // of product code, without comments
	budgetColumns = 171     // lines of Go that are longer than columns
)

// longestFunction is the greatest number of lines of a function of the product.
const longestFunction = 60

// columns is the length that a line of Go should not exceed. A tab counts as one column.
const columns = 140

// longText is how long a string is, in columns, that stays on one line.
const longText = 80

// besideTheProduct reports whether a file belongs to a program or package that no user runs.
var besideTheProduct = inside("test", "bench", "release", "contract", "outboxtest", "internal/testkit", "internal/config/configtest",
	"internal/store/storetest", "internal/store/memory")

// volume is the size of a file or package.
type volume struct{ lines, tokens int }

// volumeOf counts the lines that have a token, and the tokens. In a string of several lines it
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

// TestHouseKeepsItsBudget counts the product: the programs that users run, and all packages that
// are compiled into them.
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

// longLines counts the lines that are longer than columns. A line with a long string counts only if
// it is too long without the string: texts, such as those of struct tags, are not broken.
func longLines(t *testing.T, name string) (n int) {
	t.Helper()
	source, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var s scanner.Scanner
	file := token.NewFileSet().AddFile(name, -1, len(source))
	s.Init(file, source, nil, 0)
	texts := map[int]int{} // columns of strings, by the line
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			break
		}
		for i, line := range strings.Split(text, "\n") {
			if at := file.Line(pos) + i; tok == token.STRING && utf8.RuneCountInString(line) > longText {
				texts[at] += utf8.RuneCountInString(line)
			}
		}
	}
	at := 0
	for line := range strings.Lines(string(source)) {
		at++
		width := utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))
		if width > columns && (texts[at] == 0 || width-texts[at] > columns) {
			n++
		}
	}
	return n
}

// width is the greatest number of methods of an interface, including methods of embedded
// interfaces.
const width = 9

// wide are the interfaces that may be wider. store.Store is the list of all roles, which app opens;
// storetest has the same list. Each role keeps to the limit. No other interface may be added.
var wide = map[string]bool{"internal/store.Store": true, "internal/store/storetest.NodeStore": true}

// TestHouseInterfacesAreSmall counts the methods of each interface, including methods of embedded
// interfaces.
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
		if n := methodsOf(interfaces, name); n > width && !wide[name] {
			t.Errorf("interface %s has %d methods with those that it embeds, more than %d", name, n, width)
		} else if n <= width && wide[name] {
			t.Errorf("interface %s has %d methods: it is no exception any more", name, n)
		}
	}
}

// methodsOf counts the methods of an interface. An embedded interface of the standard library
// counts as one method.
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
