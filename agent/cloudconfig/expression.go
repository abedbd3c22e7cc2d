package cloudconfig

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/capstan-dev/capstan/agent/fault"
)

// missing is the value of a variable that does not exist.
type missing struct{ name string }

var (
	nameToken   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*`)
	numberToken = regexp.MustCompile(`^[0-9]+`)
)

// expression is the part of an expression that has not been read yet.
type expression struct{ rest string }

// evaluate returns the text of an expression, which consists of a variable or a quoted text, and filters.
func evaluate(text string, vars map[string]any) (string, error) {
	e := &expression{rest: text}
	value, err := e.value(vars)
	if err != nil {
		return "", err
	}
	for e.accept("|") {
		if value, err = e.filter(value, vars); err != nil {
			return "", err
		}
	}
	if e.space(); e.rest != "" {
		return "", fault.New(nil, "an expression can only have a variable and filters")
	}
	return toText(value)
}

func (e *expression) space() { e.rest = strings.TrimLeft(e.rest, whiteSpace) }

// accept consumes a punctuation mark if it comes next.
func (e *expression) accept(mark string) bool {
	e.space()
	rest, ok := strings.CutPrefix(e.rest, mark)
	e.rest = rest
	return ok
}

func (e *expression) token(kind *regexp.Regexp) string {
	e.space()
	found := kind.FindString(e.rest)
	e.rest = e.rest[len(found):]
	return found
}

// value parses a quoted text, a number, or a variable with its keys.
func (e *expression) value(vars map[string]any) (any, error) {
	e.space()
	if strings.HasPrefix(e.rest, "'") || strings.HasPrefix(e.rest, `"`) {
		return e.quoted()
	}
	if number := e.token(numberToken); number != "" {
		return number, nil
	}
	name := e.token(nameToken)
	switch name {
	case "":
		return nil, fault.New(nil, "an expression must start with a variable or a quoted text")
	case "true", "True":
		return true, nil
	case "false", "False":
		return false, nil
	}
	value := lookup(vars, name, name)
	for {
		var key string
		switch {
		case e.accept("."):
			if key = e.token(nameToken); key == "" {
				return nil, fault.New(nil, "a name must follow the dot")
			}
		case e.accept("["):
			var err error
			if key, err = e.index(); err != nil {
				return nil, err
			}
		case e.accept("("):
			return nil, fault.New(nil, "functions are not supported")
		default:
			return value, nil
		}
		name += "." + key
		value = lookup(value, key, name)
	}
}

// index parses a key in brackets.
func (e *expression) index() (string, error) {
	e.space()
	key := e.token(numberToken)
	if key == "" {
		var err error
		if key, err = e.quoted(); err != nil {
			return "", err
		}
	}
	if !e.accept("]") {
		return "", fault.New(nil, "a bracket is not closed")
	}
	return key, nil
}

func (e *expression) quoted() (string, error) {
	if e.rest == "" || e.rest[0] != '\'' && e.rest[0] != '"' {
		return "", fault.New(nil, "a quoted text is expected")
	}
	quote := e.rest[0]
	var b strings.Builder
	for i := 1; i < len(e.rest); i++ {
		switch c := e.rest[i]; {
		case c == '\\' && i+1 < len(e.rest):
			i++
			switch e.rest[i] {
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			default:
				b.WriteByte(e.rest[i])
			}
		case c == quote:
			e.rest = e.rest[i+1:]
			return b.String(), nil
		default:
			b.WriteByte(c)
		}
	}
	return "", fault.New(nil, "a quotation mark is not closed")
}

// lookup returns the value of key in value. name is the whole name so far.
func lookup(value any, key, name string) any {
	switch v := value.(type) {
	case map[string]any:
		if found, ok := v[key]; ok {
			return found
		}
	case []any:
		if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(v) {
			return v[i]
		}
	case missing:
		return v
	}
	return missing{name}
}

// filter parses a filter's name and arguments and applies it.
func (e *expression) filter(value any, vars map[string]any) (any, error) {
	name := e.token(nameToken)
	var args []any
	if e.accept("(") {
		for !e.accept(")") {
			if len(args) > 0 && !e.accept(",") {
				return nil, fault.New(nil, "a parenthesis is not closed")
			}
			arg, err := e.value(vars)
			if err != nil {
				return nil, err
			}
			args = append(args, arg)
		}
	}
	if name == "default" || name == "d" {
		return fallback(value, args)
	}
	text, err := toText(value)
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, arg := range args {
		t, err := toText(arg)
		if err != nil {
			return nil, err
		}
		texts = append(texts, t)
	}
	switch {
	case name == "lower" && len(args) == 0:
		return strings.ToLower(text), nil
	case name == "upper" && len(args) == 0:
		return strings.ToUpper(text), nil
	case name == "trim" && len(args) == 0:
		return strings.Trim(text, whiteSpace), nil
	case name == "string" && len(args) == 0:
		return text, nil
	case name == "replace" && len(args) == 2:
		if n := strings.Count(text, texts[0]); n > 0 && len(texts[1]) > (sizeLimit-len(text))/n {
			return nil, fault.New(nil, "a value becomes larger than %d bytes", sizeLimit)
		}
		return strings.ReplaceAll(text, texts[0], texts[1]), nil
	}
	return nil, fault.New(nil, "the filters are default(x), lower, upper, trim, string and replace(x, y)")
}

// fallback is the filter "default". It returns the filter's first argument if the value is missing. If the filter's
// second argument is true, it does the same if the value is empty.
func fallback(value any, args []any) (any, error) {
	if len(args) == 0 || len(args) > 2 {
		return nil, fault.New(nil, "the filter default needs one or two arguments: the value to use if the variable "+
			"is missing, and true to use this value also if the variable is empty")
	}
	_, absent := value.(missing)
	if absent || len(args) == 2 && args[1] == true && (value == "" || value == false || value == nil) {
		return args[0], nil
	}
	return value, nil
}

// shown matches text that messages may quote, because it can only be a name.
var shown = regexp.MustCompile(`^[a-z][a-z0-9_.]{0,60}$`)

// toText returns a value as Jinja prints it.
func toText(value any) (string, error) {
	switch v := value.(type) {
	case string:
		return v, nil
	case bool:
		if v {
			return "True", nil
		}
		return "False", nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case nil:
		return "None", nil
	case missing:
		cause := fmt.Errorf("variable %q is unknown", v.name)
		if shown.MatchString(v.name) {
			return "", fault.New(cause,
				"variable %s is unknown; there are ds.meta_data.{instance_id,local_hostname,provider_id,host,zone,local_ipv4}",
				v.name)
		}
		return "", fault.New(cause, "a variable is unknown")
	}
	return "", fault.New(nil, "a variable is not a single value")
}

// Variables returns the variables for templates. All values of metadata, the instance data, are under ds.meta_data. The
// values that cloud-init offers on every platform also have cloud-init's standard names, under v1 and at the top level.
func Variables(metadata map[string]any) map[string]any {
	meta := map[string]any{}
	for key, value := range metadata {
		meta[key] = value
		meta[strings.ReplaceAll(key, "_", "-")] = value // so that ds.meta_data['local-hostname'] works
	}
	if name, ok := meta["local_hostname"]; ok {
		if _, ok := meta["hostname"]; !ok {
			meta["hostname"] = name
		}
	}
	v1 := map[string]any{"cloud_name": "capstan", "cloud-name": "capstan"}
	for from, to := range map[string]string{
		"local_hostname": "local_hostname", "instance_id": "instance_id", "zone": "availability_zone",
	} {
		if value, ok := meta[from]; ok {
			v1[to] = value
			v1[strings.ReplaceAll(to, "_", "-")] = value
		}
	}
	vars := map[string]any{"ds": map[string]any{"meta_data": meta}, "v1": v1}
	for key, value := range v1 { // cloud-init offers these at the top level too
		vars[key] = value
	}
	return vars
}
