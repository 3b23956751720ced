package postrider_test

import (
	"go/ast"
	"go/token"
	"slices"
	"testing"
)

// The scheduler is a function of its inputs: it has no goroutine, no channel and no clock, and
// reads nothing that others write. Therefore the simulator, which runs it by seed, shows what it
// does in production.
func TestHouseScheduleIsPure(t *testing.T) {
	t.Parallel()
	for _, f := range openHouse(t).files {
		if f.folder != "internal/schedule" || f.test {
			continue
		}
		for _, pkg := range []string{"sync", "sync/atomic", "context", "math/rand/v2", "os", "net", "log/slog", "runtime"} {
			if importsAny(f, pkg) {
				t.Errorf("%s imports %s: what the scheduler needs comes in as input", f.path, pkg)
			}
		}
		ast.Inspect(f.File, func(n ast.Node) bool {
			if what := impure(n); what != "" {
				t.Errorf("%s: %s: what the scheduler needs comes in as input", f.at(n), what)
			}
			return true
		})
	}
}

// impure says what is impure about a node; "" means that it is pure.
func impure(n ast.Node) string {
	switch n := n.(type) {
	case *ast.ChanType, *ast.SendStmt, *ast.SelectStmt, *ast.GoStmt:
		return "a channel or a goroutine"
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			return "a channel"
		}
	case *ast.StructType:
		for _, field := range n.Fields.List {
			if _, is := field.Type.(*ast.FuncType); is {
				return "a field that is a function could read anything"
			}
		}
	case *ast.SelectorExpr:
		clocks := []string{"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Sleep", "Tick"}
		if x, is := n.X.(*ast.Ident); is && x.Name == "time" && slices.Contains(clocks, n.Sel.Name) {
			return "a clock"
		}
	}
	return ""
}

// A type with too many methods should be split into several types.
func TestHouseTypesHaveFewMethods(t *testing.T) {
	t.Parallel()
	const most = 40
	methods := map[string]int{}
	for _, f := range openHouse(t).files {
		if f.test || f.folder != "internal/schedule" && f.folder != "internal/dispatch" {
			continue
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil {
				continue
			}
			of := fn.Recv.List[0].Type
			if star, is := of.(*ast.StarExpr); is {
				of = star.X
			}
			if name, is := of.(*ast.Ident); is {
				methods[f.folder+": "+name.Name]++
			}
		}
	}
	if len(methods) == 0 {
		t.Fatal("no methods were found")
	}
	for of, n := range methods {
		if n > most {
			t.Errorf("%s has %d methods, more than %d", of, n, most)
		}
	}
}
