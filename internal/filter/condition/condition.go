// Package condition decides by an expression which events an endpoint wants. It is for what a
// pattern of package filter cannot say:
//
//	data.items.exists(i, i.price * i.count > 100.0) && type.startsWith("order.")
//
// The language is CEL, the Common Expression Language. [Compile] checks an expression,
// [Condition.Holds] evaluates it for an [Event]. The variables are type, subject, channels, metadata
// and internal, as a pattern has them, and data and previous, which are JSON. A text that is missing
// is empty. Data that is missing or no JSON has no fields.
//
// These promises always hold:
//
//   - An expression has a boolean result, and no regular expressions. Its macros are at most
//     MaxNesting deep in each other.
//   - An evaluation ends. It costs at most MaxCost, and its result and its cost depend on the
//     expression and the event, and on nothing else.
//   - An evaluation that fails is an error, never false.
//
// JSON numbers are doubles, as CEL says: an integer above 2^53 loses digits, and one that is used in
// arithmetic needs a double beside it. Patterns compare numbers as decimals.
package condition

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"weak"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/stdlib"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/postrider/postrider"
)

// The limits of a condition.
const (
	MaxBytes   = 4 << 10 // of its text
	MaxNesting = 2       // of macros such as all and exists in each other
	MaxCost    = 20_000  // units that an evaluation may cost; a unit takes some 100 ns
	// MaxEstimate limits what an evaluation may cost where each list has usualSize elements and each
	// text has as many characters. A condition that costs more is refused when it is saved.
	MaxEstimate = MaxCost
	usualSize   = 20
)

// Condition is a compiled expression. It never changes, so goroutines may share it.
type Condition struct {
	program cel.Program
	uses    []use
}

// use is a place where an expression has a variable.
type use struct {
	name string
	at   common.Location
}

// environment has the variables and functions of conditions. It is made when the first condition is
// compiled, so a server without conditions does not make it.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	options := []cel.EnvOption{
		cel.Macros(cel.StandardMacros...),
		cel.CrossTypeNumericComparisons(true), cel.DefaultUTCTimeZone(true),
		cel.Variable("data", cel.DynType), cel.Variable("previous", cel.DynType),
		cel.Variable("type", cel.StringType), cel.Variable("subject", cel.StringType),
		cel.Variable("channels", cel.ListType(cel.StringType)),
		cel.Variable("metadata", cel.MapType(cel.StringType, cel.StringType)),
		cel.Variable("internal", cel.MapType(cel.StringType, cel.StringType)),
		cel.ASTValidators(
			cel.ValidateComprehensionNestingLimit(MaxNesting), cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals()),
	}
	for _, f := range stdlib.Functions() {
		if f.Name() != "matches" { // the only one with regular expressions
			options = append(options, cel.FunctionDecls(f))
		}
	}
	for _, v := range stdlib.Types() {
		if v.Name() != "type" { // it is the type of the event
			options = append(options, cel.VariableDecls(v))
		}
	}
	return cel.NewCustomEnv(options...)
})

// programOptions are what every condition is compiled with.
var programOptions = []cel.ProgramOption{
	cel.EvalOptions(cel.OptOptimize), cel.CostLimit(MaxCost), cel.CostTracking(actual{}),
}

// inUse has the conditions that somebody has, by their texts: weak.Pointer[Condition]. To compile one
// takes 0.3 ms, and the policies of endpoints are read often.
var inUse sync.Map

// Compile returns the condition of a text, or all its faults. The fields without are variables that
// the condition must not use. A fault of condition.2:5 is in line 2, at character 5. A text that
// somebody has compiled is not compiled again.
func Compile(text string, without ...string) (*Condition, error) {
	c := known(text)
	if c == nil {
		var err error
		if c, err = compile(text); err != nil {
			return nil, err
		}
		pointer := weak.Make(c)
		inUse.Store(text, pointer)
		runtime.AddCleanup(c, func(text string) { inUse.CompareAndDelete(text, pointer) }, text)
	}
	if err := c.without(without); err != nil {
		return nil, err
	}
	return c, nil
}

// known returns a condition that somebody has compiled; nil: nobody has it.
func known(text string) *Condition {
	if pointer, ok := inUse.Load(text); ok {
		return pointer.(weak.Pointer[Condition]).Value() //nolint:errcheck // nothing else is in the map
	}
	return nil
}

// compiling is held while a condition is compiled. The environment is changed by that, for a moment.
var compiling sync.Mutex

func compile(text string) (*Condition, error) {
	if len(text) > MaxBytes {
		return nil, &postrider.InvalidError{
			Field: "condition", Code: postrider.FaultTooLong, Reason: fmt.Sprintf("must have at most %d bytes", MaxBytes), Max: MaxBytes,
		}
	}
	env, err := environment()
	if err != nil {
		return nil, fmt.Errorf("environment of conditions: %w", err)
	}
	compiling.Lock()
	defer compiling.Unlock()
	ast, issues := env.Compile(text)
	if faults := issues.Errors(); len(faults) > 0 {
		return nil, faultsOf(faults)
	}
	if ast.OutputType() != cel.BoolType {
		return nil, fault(common.NewLocation(1, 0), postrider.FaultMalformed,
			fmt.Sprintf("is no valid CEL: its result is %s, not true or false; compare it, as in x == true", ast.OutputType()))
	}
	estimate, err := env.EstimateCost(ast, usual{})
	if err != nil {
		return nil, fmt.Errorf("estimate the cost of a condition: %w", err)
	}
	if estimate.Max > MaxEstimate {
		return nil, &postrider.InvalidError{
			Field: "condition", Code: postrider.FaultOutOfRange, Max: MaxEstimate,
			Reason: fmt.Sprintf("must cost at most %d where lists have %d elements, and may cost %d", MaxEstimate, usualSize, estimate.Max),
		}
	}
	program, err := env.Program(ast, programOptions...)
	if err != nil { // a constant part of the expression fails
		return nil, fault(common.NewLocation(1, 0), postrider.FaultMalformed, "is no valid CEL: "+err.Error())
	}
	return &Condition{program, usesOf(ast)}, nil
}

// without returns a fault for each place where the condition uses one of the variables.
func (c *Condition) without(names []string) error {
	var faults []error
	for _, u := range c.uses {
		if slices.Contains(names, u.name) {
			faults = append(faults, fault(u.at, postrider.FaultNotAllowed, "must not be "+u.name+": it is for callers without an account"))
		}
	}
	return errors.Join(faults...)
}

// Uses reports whether the condition uses the variable.
func (c *Condition) Uses(name string) bool {
	return slices.ContainsFunc(c.uses, func(u use) bool { return u.name == name })
}

// usesOf returns the variables of an expression, in the order of their places.
func usesOf(ast *cel.Ast) (uses []use) {
	for id, r := range ast.NativeRep().ReferenceMap() {
		if r.Name != "" && r.Value == nil {
			// A variable has a dot in front where a macro has a variable of the same name.
			uses = append(uses, use{strings.TrimPrefix(r.Name, "."), ast.NativeRep().SourceInfo().GetStartLocation(id)})
		}
	}
	slices.SortFunc(uses, func(a, b use) int {
		return cmp.Or(cmp.Compare(a.at.Line(), b.at.Line()), cmp.Compare(a.at.Column(), b.at.Column()))
	})
	return uses
}

// faultsOf returns the faults that CEL found, each with its place.
func faultsOf(found []*common.Error) error {
	faults := make([]error, len(found))
	for i, f := range found {
		faults[i] = fault(f.Location, postrider.FaultMalformed, "is no valid CEL: "+strings.TrimSuffix(f.Message, " (in container '')"))
	}
	return errors.Join(faults...)
}

// fault returns a fault at a place. CEL counts lines from 1 and characters from 0.
func fault(at common.Location, code postrider.FaultCode, reason string) error {
	return &postrider.InvalidError{Field: fmt.Sprintf("condition.%d:%d", at.Line(), max(0, at.Column())+1), Code: code, Reason: reason}
}

// usual estimates the cost of an expression: all that comes from an event has usualSize.
type usual struct{}

// EstimateSize implements [cost.Estimator].
func (usual) EstimateSize(cost.AstNode) *cost.SizeEstimate {
	return &cost.SizeEstimate{Max: usualSize}
}

// EstimateCallCost implements [cost.Estimator]. CEL has estimates of its own for all functions.
func (usual) EstimateCallCost(_, _ string, _ *cost.AstNode, _ []cost.AstNode) *cost.CallEstimate {
	return nil
}

// actual counts what calls cost. CEL's own numbers leave out what an argument of unknown type costs, the
// elements of lists that are compared, and the zone of a time, which is read from a file.
type actual struct{}

// CallCost implements the estimator of [cel.CostTracking].
func (actual) CallCost(function, _ string, args []ref.Val, _ ref.Val) *uint64 {
	const zone = 500
	cost := uint64(1)
	for _, arg := range args {
		switch {
		case function == operators.Equals || function == operators.NotEquals || function == operators.In:
			cost += weightOf(arg.Value())
		case arg.Type() == types.StringType || arg.Type() == types.BytesType:
			cost += weightOf(arg.Value())
		case arg.Type() == types.TimestampType && len(args) == 2 && strings.HasPrefix(function, "get"):
			cost += zone
		}
	}
	return &cost
}

// weightOf returns a cost of the comparison of a value: one for each value in it, and one for each 16
// bytes of text.
func weightOf(v any) (weight uint64) {
	switch v := v.(type) {
	case string:
		return uint64(len(v) / 16)
	case []byte:
		return uint64(len(v) / 16)
	case []any:
		weight = uint64(len(v))
		for _, item := range v {
			weight += weightOf(item)
		}
	case map[string]any:
		weight = uint64(len(v))
		for _, item := range v {
			weight += weightOf(item)
		}
	case []ref.Val:
		weight = uint64(len(v))
		for _, item := range v {
			weight += weightOf(item.Value())
		}
	}
	return weight
}

// Holds reports whether the condition holds for the event, and what the evaluation cost. The error
// says why it could not be evaluated. Its text may have values of the event.
func (c *Condition) Holds(e *Event) (holds bool, cost int, err error) {
	result, details, err := c.program.Eval(e)
	if cost = MaxCost; details != nil && details.ActualCost() != nil {
		cost = int(min(*details.ActualCost(), MaxCost))
	}
	if err != nil {
		return false, cost, err
	}
	holds, ok := result.Value().(bool)
	if !ok {
		return false, cost, fmt.Errorf("the result is %v, and not true or false", result.Type())
	}
	return holds, cost, nil
}
