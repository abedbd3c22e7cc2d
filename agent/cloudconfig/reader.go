package cloudconfig

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/capstan-dev/capstan/agent/fault"
)

// reader extracts values from a YAML document. It keeps the first error and continues with zero values. It does not use
// yaml's own decoding, which quotes the data in its errors and reads an unquoted 0644 as a number.
//
// Everything that it reads counts against limits, because an alias of a few bytes can refer to the whole document, and
// nested aliases can refer to any multiple of the document.
type reader struct {
	err      error
	spent    int   // counted against textLimit
	unpacked int64 // counted against unpackedLimit
}

// spend counts what was read, and reports whether the total is still within the limit.
func (r *reader) spend(n *yaml.Node, size int) bool {
	if r.err != nil {
		return false
	}
	if r.spent += size; r.spent > textLimit {
		r.fail(n, "aliases make the bootstrap data larger than %d bytes", textLimit)
		return false
	}
	return true
}

// fail records an error about a node, unless there already is one.
func (r *reader) fail(n *yaml.Node, format string, args ...any) {
	if r.err == nil {
		r.err = fault.New(nil, "line %d of the bootstrap data: %s", n.Line, fmt.Sprintf(format, args...))
	}
}

// isNull reports whether n has no value. The kubeadm bootstrap provider writes "<nil>" for an unset value.
func isNull(n *yaml.Node) bool {
	n = deref(n)
	return n.Kind == yaml.ScalarNode && (n.Tag == "!!null" || n.Value == "<nil>")
}

// deref follows an alias.
func deref(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias // an anchor can't be an alias itself
	}
	return n
}

// fields reads a mapping. For each key, it calls the function known[key] with the value.
func (r *reader) fields(n *yaml.Node, what string, known map[string]func(*yaml.Node)) {
	n = deref(n)
	if n.Kind != yaml.MappingNode {
		if !isNull(n) {
			r.fail(n, "%s must be a mapping of keys and values", what)
		}
		return
	}
	if !r.spend(n, entryCost*len(n.Content)) {
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content) && r.err == nil; i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		read, ok := known[key.Value]
		if !ok {
			var names []string
			for name := range known {
				names = append(names, name)
			}
			slices.Sort(names)
			r.fail(key, "%s has a key that is not supported; the keys are %s", what, strings.Join(names, ", "))
			continue
		}
		if seen[key.Value] {
			r.fail(key, "%s has the key %s twice", what, key.Value)
			continue
		}
		seen[key.Value] = true
		if !isNull(value) {
			read(deref(value))
		}
	}
}

// list returns the entries of a list.
func (r *reader) list(n *yaml.Node, what string) []*yaml.Node {
	n = deref(n)
	if n.Kind != yaml.SequenceNode {
		r.fail(n, "%s must be a list", what)
		return nil
	}
	if !r.spend(n, entryCost*len(n.Content)) {
		return nil
	}
	entries := make([]*yaml.Node, 0, len(n.Content))
	for _, entry := range n.Content {
		entries = append(entries, deref(entry))
	}
	return entries
}

// each calls the function read for each entry of n, a list of mappings, and appends the results to list.
func each[T any](r *reader, n *yaml.Node, what string, list *[]T, read func(*yaml.Node) T) {
	for _, entry := range r.list(n, what) {
		if r.err != nil {
			return
		}
		if !isNull(entry) {
			*list = append(*list, read(entry))
		}
	}
}

// text returns a single value as written.
func (r *reader) text(n *yaml.Node, what string) string {
	n = deref(n)
	if n.Kind != yaml.ScalarNode {
		r.fail(n, "%s must be a text", what)
		return ""
	}
	if isNull(n) || !r.spend(n, len(n.Value)) {
		return ""
	}
	if n.Tag == "!!binary" {
		var decoded string
		if err := n.Decode(&decoded); err != nil {
			r.fail(n, "%s is not valid base64", what)
		}
		return decoded
	}
	return n.Value
}

// texts returns a list of single values.
func (r *reader) texts(n *yaml.Node, what string) []string {
	var list []string
	for _, entry := range r.list(n, what) {
		list = append(list, r.text(entry, what))
	}
	if r.err != nil {
		return nil
	}
	return list
}

// words returns a list, which may also be given as one text with separators.
func (r *reader) words(n *yaml.Node, what, separators string) []string {
	if deref(n).Kind == yaml.SequenceNode {
		return r.texts(n, what)
	}
	return strings.FieldsFunc(r.text(n, what), func(c rune) bool { return strings.ContainsRune(separators, c) })
}

// flag returns a boolean, in any of YAML 1.1's spellings.
func (r *reader) flag(n *yaml.Node, what string) bool {
	switch strings.ToLower(r.text(n, what)) {
	case "true", "yes", "on", "y", "1":
		return true
	case "false", "no", "off", "n", "0", "":
		return false
	}
	r.fail(n, "%s must be true or false", what)
	return false
}
