//go:build linux

package contract

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func inNamespace(ns string) client.InNamespace { return client.InNamespace(ns) }

// request has the fields of an audit log line that the tests use.
type request struct {
	Verb       string
	RequestURI string
	UserAgent  string
	User       struct{ Username string }
	ObjectRef  *struct{ Resource, Namespace, Name, APIGroup, Subresource string }

	ResponseStatus struct {
		Code    int
		Message string
	}
}

// right returns the right that the request needs, as "verb group/resource/subresource".
func (r request) right() string {
	if r.ObjectRef == nil {
		return r.Verb + " " + r.RequestURI
	}
	return rightOf(r.Verb, r.ObjectRef.APIGroup, joinSub(r.ObjectRef.Resource, r.ObjectRef.Subresource))
}

func joinSub(resource, sub string) string {
	if sub == "" {
		return resource
	}
	return resource + "/" + sub
}

func rightOf(verb, group, resource string) string {
	if group != "" {
		resource = group + "/" + resource
	}
	return verb + " " + resource
}

// auditLog calls visit for every request that the API server has answered so far.
func auditLog(visit func(request)) error {
	file, err := os.Open(shared.audit)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(make([]byte, 0, 64<<10), 8<<20)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return fmt.Errorf("reading the audit log: %w", err)
		}
		visit(r)
	}
	return lines.Err()
}

// requestsOf returns how often a user used each right, and which requests were denied.
func requestsOf(user string) (used map[string]int, denied []string, err error) {
	used = map[string]int{}
	err = auditLog(func(r request) {
		if r.User.Username != user {
			return
		}
		if r.ResponseStatus.Code == 403 {
			denied = append(denied, fmt.Sprintf("%s: %s", r.right(), r.ResponseStatus.Message))
			return
		}
		if r.ObjectRef != nil {
			used[r.right()]++
		}
	})
	return used, denied, err
}

// rights lists what roles grant, sorted.
func rights(roles []*rbacv1.ClusterRole) []string {
	var all []string
	for _, role := range roles {
		for _, r := range role.Rules {
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					for _, verb := range r.Verbs {
						all = append(all, rightOf(verb, group, resource))
					}
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b string) int {
		_, ra, _ := strings.Cut(a, " ")
		_, rb, _ := strings.Cut(b, " ")
		return strings.Compare(ra+a, rb+b)
	})
	return slices.Compact(all)
}
