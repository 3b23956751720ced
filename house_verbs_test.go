package postrider_test

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"testing"
)

// TestHouseObservesEveryVerb compares the roles of the store with the decorator that tells
// observers of each call. A verb that is missing there would work, and be in no metric.
func TestHouseObservesEveryVerb(t *testing.T) {
	t.Parallel()
	unobserved := []string{"Close", "Clock", "Hold"} // ends the store, reads memory, lasts as long as a connection
	h := openHouse(t)
	observed := map[string]bool{}
	for _, f := range h.files {
		if f.folder != "internal/app" || f.test {
			continue
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil && calls(fn, "done") {
				observed[fn.Name.Name] = names(fn, fn.Name.Name)
			}
		}
	}
	roles := storeRoles(h)
	if len(roles) < 60 {
		t.Fatalf("the house has %d verbs of the store, too few to be true", len(roles))
	}
	for _, verb := range roles {
		if correct, found := observed[verb]; !found && !slices.Contains(unobserved, verb) {
			t.Errorf("verb %s of the store is not in internal/app/verbs.go", verb)
		} else if found && !correct {
			t.Errorf("internal/app/verbs.go: %s tells observers another name", verb)
		}
	}
}

// storeRoles returns the methods of the interfaces that are embedded in store.Store, and those of
// store.Store itself and of store.Nodes.
func storeRoles(h house) (verbs []string) {
	interfaces := map[string]*ast.InterfaceType{}
	for _, f := range h.files {
		if f.folder != "internal/store" || f.test {
			continue
		}
		ast.Inspect(f.File, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if i, ok := spec.Type.(*ast.InterfaceType); ok {
					interfaces[spec.Name.Name] = i
				}
			}
			return true
		})
	}
	roles := []string{"Store", "Nodes"}
	for len(roles) > 0 {
		role := interfaces[roles[0]]
		roles = roles[1:]
		for _, m := range role.Methods.List {
			if embedded, ok := m.Type.(*ast.Ident); ok {
				roles = append(roles, embedded.Name)
			}
			for _, name := range m.Names {
				verbs = append(verbs, name.Name)
			}
		}
	}
	return verbs
}

// calls reports whether a function defers a call of the method.
func calls(fn *ast.FuncDecl, method string) (found bool) {
	ast.Inspect(fn, func(n ast.Node) bool {
		d, ok := n.(*ast.DeferStmt)
		if ok {
			s, isMethod := d.Call.Fun.(*ast.SelectorExpr)
			found = found || isMethod && s.Sel.Name == method
		}
		return true
	})
	return found
}

// names reports whether a function has the text as a string.
func names(fn *ast.FuncDecl, text string) (found bool) {
	ast.Inspect(fn, func(n ast.Node) bool {
		l, ok := n.(*ast.BasicLit)
		found = found || ok && l.Kind == token.STRING && l.Value == strconv.Quote(text)
		return true
	})
	return found
}
