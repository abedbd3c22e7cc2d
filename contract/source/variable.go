package source

import (
	"slices"
	"strings"
)

// Variable is one use of a clusterctl variable, in the grammar of drone/envsubst.
type Variable struct {
	// Name is the name without surrounding blanks.
	Name string
	// Operator follows the name, for example ":=". It may be empty.
	Operator string
	// Default is the text used if the variable is not set. HasDefault reports whether there is one.
	Default    string
	HasDefault bool
	// Text is the use as written, from ${ to }.
	Text string
	// Blanks reports whether there are blanks around the name, inside the braces.
	Blanks bool
	// Problem says what is wrong, if anything.
	Problem string
	// At is where the use begins.
	At Position

	begin, end int
}

// variables returns all uses of variables in a text, in order.
func variables(path, text string) []Variable {
	var all []Variable
	line, lineBegin := 1, 0
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\n':
			line, lineBegin = line+1, i+1
		case strings.HasPrefix(text[i:], "$${"):
			i += 2 // escaped
		case strings.HasPrefix(text[i:], "${"):
			v := variable(text, i)
			v.At = Position{File: path, Line: line, Column: i - lineBegin + 1}
			all = append(all, v)
			i = v.end - 1
		}
	}
	return all
}

// operators are the operators between name and default, longer ones first.
var operators = []string{":=", ":-", ":+", "=", "-", "+"}

// variable parses the use of a variable at an offset.
func variable(text string, begin int) Variable {
	v := Variable{begin: begin}
	depth, end := 0, -1
	for i := begin; i < len(text) && end < 0; i++ {
		switch {
		case strings.HasPrefix(text[i:], "${"):
			depth++
		case text[i] == '}':
			if depth--; depth == 0 {
				end = i + 1
			}
		}
	}
	if end < 0 {
		v.end, v.Text, v.Problem = begin+2, text[begin:begin+2], "the brace is not closed"
		return v
	}
	v.end, v.Text = end, text[begin:end]
	inner := text[begin+2 : end-1]
	trimmed := strings.TrimLeft(inner, " \t")
	length := 0
	for length < len(trimmed) && isName(trimmed[length], length == 0) {
		length++
	}
	v.Name = trimmed[:length]
	rest := trimmed[length:]
	after := strings.TrimLeft(rest, " \t")
	v.Blanks = trimmed != inner || after != rest
	switch {
	case v.Name == "" && strings.HasPrefix(trimmed, "#"):
		v.Name, v.Operator = strings.TrimSpace(trimmed[1:]), "#" // the length of a variable
	case v.Name == "":
		v.Problem = "there is no name of a variable"
	case after == "":
	case after[0] == '$':
		v.Problem = "a name cannot be made of another variable"
	default:
		v.operator(after)
	}
	return v
}

// operator parses what follows a name.
func (v *Variable) operator(after string) {
	for _, operator := range operators {
		if rest, ok := strings.CutPrefix(after, operator); ok {
			v.Operator = operator
			v.HasDefault = operator != ":+" && operator != "+"
			v.Default = rest
			if !strings.Contains(rest, "\n") {
				v.Default = strings.TrimSpace(rest)
			}
			return
		}
	}
	if strings.ContainsRune("#%/^,:", rune(after[0])) {
		v.Operator = after[:1] // another function of the grammar: it changes the value but has no default
		return
	}
	v.Problem = "what follows the name is not in the grammar"
}

func isName(c byte, first bool) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || !first && c >= '0' && c <= '9'
}

// alwaysSet are template variables that clusterctl sets itself, so their defaults are never used.
var alwaysSet = []string{"CLUSTER_NAME", "NAMESPACE"}

// substitute replaces variables by their given values or else their defaults, including variables within defaults.
// It leaves variables with neither unchanged.
func (r Reader) substitute(text string, uses []Variable) string {
	var b strings.Builder
	last := 0
	for _, v := range uses {
		given, isGiven := r.given(v)
		if v.Problem != "" || !v.HasDefault && !isGiven {
			continue
		}
		b.WriteString(text[last:v.begin])
		switch {
		case isGiven:
			b.WriteString(given)
		case slices.Contains(alwaysSet, v.Name):
			b.WriteString("${" + v.Name + "}")
		default:
			b.WriteString(r.substitute(v.Default, variables("", v.Default)))
		}
		last = v.end
	}
	b.WriteString(text[last:])
	return b.String()
}

// Runes of Unicode's private use area that replace the braces of a variable while YAML is parsed. Otherwise [${KEYS}],
// which clusterctl accepts, would not be valid YAML before substitution.
const (
	shieldOpen  = "$\uE000"
	shieldClose = "\uE001"
)

// shield turns variables without a default into plain text for YAML; unshield reverses it.
func shield(text string) string {
	var b strings.Builder
	last := 0
	for _, v := range variables("", text) {
		if v.Problem != "" || strings.Contains(v.Text, "\n") {
			continue
		}
		b.WriteString(text[last:v.begin])
		b.WriteString(shieldOpen + text[v.begin+2:v.end-1] + shieldClose)
		last = v.end
	}
	b.WriteString(text[last:])
	return b.String()
}

var unshield = strings.NewReplacer(shieldOpen, "${", shieldClose, "}").Replace
