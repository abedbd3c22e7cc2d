//go:build linux

package contract

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// version is a contract version of Cluster API.
type version string

const (
	v1beta1 version = "v1beta1"
	v1beta2 version = "v1beta2"
)

var versions = []version{v1beta1, v1beta2}

// recordBoth records a rule for both contract versions, because the assertion before the call is about both.
func recordBoth(t testing.TB, id string) {
	t.Helper()
	for _, v := range versions {
		t.Attr("rule", id+" "+string(v))
	}
}

// form reads and creates our objects in the API version that serves one contract version. The API version has the same
// name as the contract version.
type form struct{ Version version }

// eachVersion runs a test once for each contract version.
func eachVersion(t *testing.T, test func(*testing.T, form)) {
	for _, v := range versions {
		t.Run(string(v), func(t *testing.T) {
			t.Parallel()
			test(t, form{v})
		})
	}
}

// newObject returns an empty object of one of our kinds.
func (f form) newObject(kind string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.GroupVersionKind{
		Group: infrav1.GroupVersion.Group, Version: string(f.Version), Kind: kind,
	})
	return u
}

func text(u *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(u.Object, path...)
	return s
}

// flag reports whether the object says that it is provisioned (IM-19, IC-22).
func (f form) flag(u *unstructured.Unstructured) bool {
	path := []string{"status", "initialization", "provisioned"}
	if f.Version == v1beta1 {
		path = []string{"status", "ready"}
	}
	b, _, _ := unstructured.NestedBool(u.Object, path...)
	return b
}

// providerID returns the provider id of a machine, which is at the same place in both versions (IM-10).
func (f form) providerID(u *unstructured.Unstructured) string { return text(u, "spec", "providerID") }

// domain returns the failure domain of a machine (IM-55).
func (f form) domain(u *unstructured.Unstructured) string {
	if f.Version == v1beta1 {
		return text(u, "spec", "failureDomain")
	}
	return text(u, "status", "failureDomain")
}

// addresses returns the addresses of a machine, each as "type address" (IM-28).
func (f form) addresses(u *unstructured.Unstructured) []string {
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "addresses")
	var all []string
	for _, item := range list {
		m, _ := item.(map[string]any)
		kind, _ := m["type"].(string)
		address, _ := m["address"].(string)
		all = append(all, kind+" "+address)
	}
	return all
}

// domains returns the names of a cluster's failure domains (IC-19), sorted.
func (f form) domains(u *unstructured.Unstructured) []string {
	var names []string
	if f.Version == v1beta1 {
		m, _, _ := unstructured.NestedMap(u.Object, "status", "failureDomains")
		for name := range m {
			names = append(names, name)
		}
	} else {
		list, _, _ := unstructured.NestedSlice(u.Object, "status", "failureDomains")
		for _, item := range list {
			m, _ := item.(map[string]any)
			name, _ := m["name"].(string)
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// endpoint returns the host and port of a cluster's endpoint, if there is one (IC-16).
func (f form) endpoint(u *unstructured.Unstructured) (host string, port int64) {
	port, _, _ = unstructured.NestedInt64(u.Object, "spec", "controlPlaneEndpoint", "port")
	return text(u, "spec", "controlPlaneEndpoint", "host"), port
}

// condition returns "status reason" of a condition, or "" (IM-29, IC-25).
func (f form) condition(u *unstructured.Unstructured, kind string) string {
	status, reason, _ := f.conditionAndMessage(u, kind)
	return strings.TrimSpace(status + " " + reason)
}

func (f form) conditionAndMessage(u *unstructured.Unstructured, kind string) (status, reason, message string) {
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, item := range list {
		m, _ := item.(map[string]any)
		if m["type"] != kind {
			continue
		}
		status, _ = m["status"].(string)
		reason, _ = m["reason"].(string)
		message, _ = m["message"].(string)
	}
	return status, reason, message
}

// is reports whether a condition has the wanted status, such as "False", or the wanted status and reason, such as
// "False WaitingForOwner". In v1beta1, conditions that are True have no reason.
func (f form) is(u *unstructured.Unstructured, kind, want string) bool {
	got := f.condition(u, kind)
	return got == want || strings.HasPrefix(got, want+" ")
}

// conditionTypes lists the conditions that the object has, sorted.
func (f form) conditionTypes(u *unstructured.Unstructured) []string {
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	var types []string
	for _, item := range list {
		m, _ := item.(map[string]any)
		kind, _ := m["type"].(string)
		types = append(types, kind)
	}
	slices.Sort(types)
	return types
}

// failure returns the failure fields (IM-22, IM-23).
func (f form) failure(u *unstructured.Unstructured) (reason, message string) {
	return text(u, "status", "failureReason"), text(u, "status", "failureMessage")
}
