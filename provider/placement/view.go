package placement

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// maxViews bounds the views of an index. There is one view for each combination of label keys and hardware that
// machines request.
const maxViews = 16

// view groups the open hosts of an index into shapes: hosts of one shape fit the same requests. A view considers only
// labels with certain keys, so that labels unique to each host don't matter. As for hardware, a view considers only
// whether a host meets certain requirements.
type view struct {
	keys     []string // of labels, sorted
	hardware infrav1.HostRequirements
	shapes   map[string]*shape
	of       map[string]*shape // by name of the host
	used     int               // the value of Index.asked at the last use
}

// shape is a combination of properties, and the hosts that have it.
type shape struct {
	looks
	key   string
	hosts names
}

func newView(keys []string, hardware infrav1.HostRequirements) *view {
	return &view{keys: keys, hardware: hardware, shapes: map[string]*shape{}, of: map[string]*shape{}}
}

// put adds or updates an open host. It reports whether the view has changed.
func (v *view) put(host *infrav1.CapstanHost) (changed bool) {
	key := v.keyOf(host)
	has := v.of[host.Name]
	if has != nil && has.key == key {
		return false
	}
	v.remove(host.Name)
	s := v.shapes[key]
	if s == nil {
		s = &shape{key: key, looks: looksOf(host, v.labelsOf(host), v.hardware)}
		v.shapes[key] = s
	}
	s.hosts.add(host.Name)
	v.of[host.Name] = s
	return true
}

func (v *view) remove(name string) (changed bool) {
	s := v.of[name]
	if s == nil {
		return false
	}
	delete(v.of, name)
	if s.hosts.remove(name); s.hosts.len() == 0 {
		delete(v.shapes, s.key)
	}
	return true
}

// keyOf returns a key that is equal only for hosts of the same shape. Agents choose some of the parts, so each text is
// prefixed with its length.
func (v *view) keyOf(host *infrav1.CapstanHost) string {
	var b strings.Builder
	put := func(text string) {
		b.WriteString(strconv.Itoa(len(text)))
		b.WriteByte(':')
		b.WriteString(text)
	}
	b.WriteString(strconv.Itoa(int(stateOf(host))))
	b.WriteString(strconv.FormatBool(v.hardware.MetBy(host.Status.Agent)))
	put(host.Spec.Zone)
	b.WriteString(strconv.Itoa(len(host.Status.KubernetesVersions)))
	for _, version := range host.Status.KubernetesVersions {
		put(version)
	}
	for _, key := range v.keys {
		if value, has := host.Labels[key]; has {
			put(value)
		} else {
			b.WriteByte('-')
		}
	}
	return b.String()
}

func (v *view) labelsOf(host *infrav1.CapstanHost) labels.Set {
	known := labels.Set{}
	for _, key := range v.keys {
		if value, has := host.Labels[key]; has {
			known[key] = value
		}
	}
	return known
}

// keysOf returns the label keys that a selector uses.
func keysOf(selector labels.Selector) []string {
	if selector == nil {
		return nil
	}
	requirements, _ := selector.Requirements()
	var keys []string
	for _, r := range requirements {
		keys = append(keys, r.Key())
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
