package postrider_test

import (
	"go/ast"
	"slices"
	"strconv"
	"testing"
)

// TestHouseObservesEveryVerb checks the first line of every verb of the SQL stores: it must defer
// the end of a call that store.Calls.Begin begins with the verb's name. Without that line a verb
// would work but appear in no metric. A verb whose parameters have no names does nothing, and needs
// no such line.
func TestHouseObservesEveryVerb(t *testing.T) {
	t.Parallel()
	// Close ends the store, Clock reads memory, Hold lasts as long as a connection.
	unobserved := []string{"Close", "Clock", "Hold"}
	h := openHouse(t)
	roles := storeRoles(h)
	if len(roles) < 60 {
		t.Fatalf("the house has %d verbs of the store, too few to be true", len(roles))
	}
	found := map[string]bool{}
	for _, f := range h.files {
		if !slices.Contains([]string{"internal/store/postgres", "internal/store/sqlite", "internal/store/sqlstore"}, f.folder) || f.test {
			continue
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !isStores(fn) || !slices.Contains(roles, fn.Name.Name) || slices.Contains(unobserved, fn.Name.Name) {
				continue
			}
			found[fn.Name.Name] = true
			if named(fn.Type.Params) && !observed(fn) {
				t.Errorf("%s: verb %s must begin with: defer s.calls.Begin(%[2]q).End(&err, …)", f.at(fn), fn.Name.Name)
			}
		}
	}
	for _, verb := range roles {
		if !found[verb] && !slices.Contains(unobserved, verb) {
			t.Errorf("no SQL store has the verb %s", verb)
		}
	}
}

// isStores reports whether a function is a method of a store itself, and not of a part of a store.
func isStores(fn *ast.FuncDecl) bool {
	if fn.Recv == nil {
		return false
	}
	receiver := fn.Recv.List[0].Type
	if pointer, ok := receiver.(*ast.StarExpr); ok {
		receiver = pointer.X
	}
	name, ok := receiver.(*ast.Ident)
	return ok && (name.Name == "Store" || name.Name == "Verbs")
}

// named reports whether the parameters have names.
func named(params *ast.FieldList) bool {
	return len(params.List) == 0 || len(params.List[0].Names) > 0
}

// observed reports whether the function's first statement defers End of a Begin with the function's
// name.
func observed(fn *ast.FuncDecl) bool {
	first, ok := fn.Body.List[0].(*ast.DeferStmt)
	if !ok {
		return false
	}
	end, isEnd := first.Call.Fun.(*ast.SelectorExpr)
	if !isEnd || end.Sel.Name != "End" {
		return false
	}
	begin, isCall := end.X.(*ast.CallExpr)
	if !isCall || len(begin.Args) != 1 {
		return false
	}
	method, isMethod := begin.Fun.(*ast.SelectorExpr)
	name, isText := begin.Args[0].(*ast.BasicLit)
	return isMethod && method.Sel.Name == "Begin" && isText && name.Value == strconv.Quote(fn.Name.Name)
}

// storeRoles returns the methods of store.Store, of the interfaces that store.Store embeds, and of
// store.Nodes.
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
