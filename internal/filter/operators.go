package filter

import (
	"net/netip"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/postrider/postrider"
)

// operator parses an object with one operator and adds it to the condition.
func (p *parser) operator(l *leaf, v *value, at string) {
	v.open()
	if len(v.items) != 1 {
		p.fault(at, postrider.FaultMalformed, "must have exactly one operator")
		return
	}
	operand := &v.items[0]
	at = join(at, operand.name)
	switch operand.name {
	case "prefix", "suffix":
		if operand.name == "prefix" && operand.kind == kindString {
			l.prefixes = append(l.prefixes, operand.scalar().text)
		}
		l.add(p.affix(operand, at))
	case "equals-ignore-case", "wildcard":
		l.add(p.stringTest(operand.name, operand, at))
	case "anything-but":
		l.weak = true
		l.add(p.anythingBut(operand, at))
	case "numeric":
		l.add(p.numeric(operand, at))
	case "cidr":
		l.add(p.cidr(operand, at))
	case "exists":
		switch operand.kind {
		case kindTrue:
			l.weak = true
			l.add(func(scalar) bool { return true })
		case kindFalse:
			l.missing = true
		default:
			p.fault(at, postrider.FaultMalformed, "must be true or false")
		}
	default:
		p.fault(at, postrider.FaultNotAChoice, "must be one of "+
			"anything-but, cidr, equals-ignore-case, exists, numeric, prefix, suffix, wildcard")
	}
}

func (l *leaf) add(t test) {
	l.tests = append(l.tests, t)
}

// affix parses the operand of prefix or suffix: a string, or {"equals-ignore-case": string}.
func (p *parser) affix(v *value, at string) test {
	if v.kind != kindObject {
		return p.stringTest(v.name, v, at)
	}
	v.open()
	if len(v.items) != 1 || v.items[0].name != "equals-ignore-case" {
		p.fault(at, postrider.FaultMalformed, `must be a string or {"equals-ignore-case": string}`)
		return nil
	}
	return p.stringTest(v.name+"-ignore-case", &v.items[0], join(at, v.items[0].name))
}

// stringTest returns the operator of the name for a string.
func (p *parser) stringTest(name string, v *value, at string) test {
	if v.kind != kindString {
		p.fault(at, postrider.FaultMalformed, "must be a string")
		return nil
	}
	want := v.scalar().text
	var holds func(string) bool
	switch name {
	case "prefix":
		holds = func(s string) bool { return strings.HasPrefix(s, want) }
	case "suffix":
		holds = func(s string) bool { return strings.HasSuffix(s, want) }
	case "prefix-ignore-case":
		holds = func(s string) bool {
			return hasFolded(s, want, utf8.DecodeRuneInString, func(s string, n int) string { return s[n:] })
		}
	case "suffix-ignore-case":
		holds = func(s string) bool {
			return hasFolded(s, want, utf8.DecodeLastRuneInString, func(s string, n int) string { return s[:len(s)-n] })
		}
	case "equals-ignore-case":
		holds = func(s string) bool { return strings.EqualFold(s, want) }
	case "wildcard":
		parts := p.wildcard(want, at)
		holds = func(s string) bool { return matchWildcard(parts, s) }
	}
	return func(s scalar) bool { return s.kind == kindString && holds(s.text) }
}

// hasFolded reports whether s begins with want, but for case. With functions that take runes from the
// end, it reports whether s ends with want.
func hasFolded(s, want string, next func(string) (rune, int), drop func(string, int) string) bool {
	for want != "" {
		a, m := next(s)
		b, n := next(want)
		if m == 0 || !sameFold(a, b) {
			return false
		}
		s, want = drop(s, m), drop(want, n)
	}
	return true
}

// sameFold reports whether two characters are equal by Unicode's simple case folding.
func sameFold(a, b rune) bool {
	for r := unicode.SimpleFold(a); a != b && r != a; r = unicode.SimpleFold(r) {
		if r == b {
			return true
		}
	}
	return a == b
}

// wildcard returns the texts between the wildcards of a text.
func (p *parser) wildcard(text, at string) []string {
	parts := []string{""}
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '*' {
			if len(parts) > 1 && parts[len(parts)-1] == "" {
				p.fault(at, postrider.FaultMalformed, "must not have two * in a row")
			}
			parts = append(parts, "")
			continue
		}
		if c == '\\' {
			if i++; i == len(text) || text[i] != '*' && text[i] != '\\' {
				p.fault(at, postrider.FaultMalformed, `must have * or \ after each \`)
				break
			}
			c = text[i]
		}
		parts[len(parts)-1] += string([]byte{c})
	}
	p.within(at, len(parts)-1, MaxWildcards, "*")
	return parts
}

// matchWildcard reports whether s has the parts in this order, the first one at its beginning and the
// last one at its end. The leftmost place of a part leaves most for the next ones, so none is tried
// twice.
func matchWildcard(parts []string, s string) bool {
	last := len(parts) - 1
	if last == 0 {
		return s == parts[0]
	}
	s, ok := strings.CutPrefix(s, parts[0])
	for i := 1; ok && i < last; i++ {
		_, s, ok = strings.Cut(s, parts[i])
	}
	return ok && strings.HasSuffix(s, parts[last])
}

// numeric parses a list of comparisons.
func (p *parser) numeric(v *value, at string) test {
	const form = `must be [operator, number], with =, <, <=, > or >=, or [">" or ">=", number, "<" or "<=", number]`
	v.open()
	n := len(v.items)
	if v.kind != kindArray || n != 2 && n != 4 {
		p.fault(at, postrider.FaultMalformed, form)
		return nil
	}
	operators, ends := make([]string, n/2), make([]scalar, n/2)
	for i := range v.items {
		if v.items[i].kind != []kind{kindString, kindNumber}[i%2] {
			p.fault(at, postrider.FaultMalformed, form)
			return nil
		}
		if i%2 == 0 {
			operators[i/2] = v.items[i].scalar().text
		} else {
			ends[i/2] = v.items[i].scalar()
		}
	}
	if !slices.Contains([]string{"=", "<", "<=", ">", ">=", "> <", "> <=", ">= <", ">= <="}, strings.Join(operators, " ")) {
		p.fault(at, postrider.FaultMalformed, form)
		return nil
	}
	if n == 4 && compareNumbers(ends[0], ends[1]) >= 0 {
		p.fault(at, postrider.FaultMalformed, "must be a range whose lower end is less than its upper end")
	}
	first := comparison(operators[0], ends[0])
	if n == 2 {
		return first
	}
	second := comparison(operators[1], ends[1])
	return func(s scalar) bool { return first(s) && second(s) }
}

// comparison returns the test of numbers with an operator.
func comparison(operator string, end scalar) test {
	return func(s scalar) bool {
		if s.kind != kindNumber {
			return false
		}
		c := compareNumbers(s, end)
		return c < 0 && operator[0] == '<' || c > 0 && operator[0] == '>' || c == 0 && operator[len(operator)-1] == '='
	}
}

func (p *parser) cidr(v *value, at string) test {
	block, err := netip.ParsePrefix(v.scalar().text)
	if v.kind != kindString || err != nil || block.Addr().Is4In6() {
		p.fault(at, postrider.FaultMalformed, "must be a block of IPv4 or IPv6 addresses, such as 10.0.0.0/8 or 2001:db8::/32")
		return nil
	}
	return func(s scalar) bool {
		if s.kind != kindString {
			return false
		}
		addr, err := netip.ParseAddr(s.text)
		return err == nil && block.Contains(addr.Unmap())
	}
}

// anythingBut parses what a value must not be.
func (p *parser) anythingBut(v *value, at string) test {
	var refused leaf
	switch v.kind {
	case kindObject:
		p.anythingButOperator(&refused, v, at)
	case kindString, kindNumber:
		refused.equals = []scalar{v.scalar()}
	case kindArray:
		p.list(v, at, func(item *value, place string) {
			if first := v.items[0].kind; item.kind != first || first != kindString && first != kindNumber {
				p.fault(place, postrider.FaultMalformed, "must be in a list of strings or in a list of numbers")
				return
			}
			refused.equals = append(refused.equals, item.scalar())
		})
	default:
		p.fault(at, postrider.FaultMalformed, "must be a string, a number, a list or an operator")
	}
	return func(s scalar) bool { return !refused.accepts(s) }
}

// anythingButOperator parses an operator whose operand is a string or a list of strings.
func (p *parser) anythingButOperator(refused *leaf, v *value, at string) {
	v.open()
	if len(v.items) != 1 || !slices.Contains([]string{"prefix", "suffix", "equals-ignore-case", "wildcard"}, v.items[0].name) {
		p.fault(at, postrider.FaultMalformed, "must have exactly one operator: prefix, suffix, equals-ignore-case or wildcard")
		return
	}
	operand := &v.items[0]
	add := func(item *value, place string) {
		if item.kind == kindString && item.scalar().text == "" && operand.name != "equals-ignore-case" {
			p.fault(place, postrider.FaultRequired, "must not be empty")
		}
		refused.add(p.stringTest(operand.name, item, place))
	}
	if at = join(at, operand.name); operand.kind == kindArray {
		p.list(operand, at, add)
	} else {
		add(operand, at)
	}
}

// list calls f for each value of a list of anything-but, and counts them.
func (p *parser) list(v *value, at string, f func(item *value, place string)) {
	v.open()
	if len(v.items) == 0 {
		p.fault(at, postrider.FaultRequired, "must have a value")
	}
	p.values += len(v.items)
	for i := range v.items {
		f(&v.items[i], element(at, i))
	}
}
