package extension

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/capstan-dev/capstan/extension"
)

func contextFor(bound time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), bound)
}

// everybody lists what every user may do with resources: see their own rights and their own identity.
var everybody = []string{
	"authorization.k8s.io/selfsubjectaccessreviews create", "authorization.k8s.io/selfsubjectrulesreviews create",
	"authentication.k8s.io/selfsubjectreviews create",
}

var verbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "escalate",
	"bind", "impersonate", "approve", "sign", "attest", "use"}

// TestEveryOtherAccessIsForbidden checks each verb on each resource and subresource that the API server serves: only
// what the role lists is allowed.
func TestEveryOtherAccessIsForbidden(t *testing.T) {
	allowed := map[string]bool{}
	for _, one := range everybody {
		allowed[one] = true
	}
	for _, rule := range extension.ClusterRole().Rules {
		if len(rule.NonResourceURLs) > 0 || slices.Contains(rule.Verbs, "*") || slices.Contains(rule.Resources, "*") ||
			slices.Contains(rule.APIGroups, "*") {
			t.Fatalf("rule %+v has a wildcard or names URLs, so the test can't list what it allows", rule)
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					allowed[group+"/"+resource+" "+verb] = true
				}
			}
		}
	}
	judge := kubernetes.NewForConfigOrDie(server.Config)
	_, lists, err := judge.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	resources := map[string]bool{"/users": true, "/groups": true} // they can only be impersonated
	for _, list := range lists {
		group, _, found := strings.Cut(list.GroupVersion, "/")
		if !found {
			group = ""
		}
		for _, r := range list.APIResources {
			resources[group+"/"+r.Name] = true
		}
	}
	if len(resources) < 80 {
		t.Fatalf("found only %d resources: the test looks in the wrong place", len(resources))
	}
	type question struct{ resource, verb string }
	questions := make(chan question)
	wrong := make(chan string, 16)
	for range 8 {
		go func() {
			for q := range questions {
				group, resource, _ := strings.Cut(q.resource, "/")
				resource, sub, _ := strings.Cut(resource, "/")
				review, err := judge.AuthorizationV1().SubjectAccessReviews().Create(t.Context(),
					&authorizationv1.SubjectAccessReview{
						Spec: authorizationv1.SubjectAccessReviewSpec{
							User: user, Groups: []string{"system:authenticated"},
							ResourceAttributes: &authorizationv1.ResourceAttributes{
								Group: group, Resource: resource, Subresource: sub, Verb: q.verb, Namespace: "default", Name: "any",
							},
						},
					}, metav1.CreateOptions{})
				switch {
				case err != nil:
					wrong <- fmt.Sprintf("%s %s: %v", q.verb, q.resource, err)
				case review.Status.Allowed != allowed[q.resource+" "+q.verb]:
					wrong <- fmt.Sprintf("%s %s: allowed is %t, want the opposite",
						q.verb, q.resource, review.Status.Allowed)
				default:
					wrong <- ""
				}
			}
		}()
	}
	asked := 0
	go func() {
		defer close(questions)
		for _, resource := range slices.Sorted(maps.Keys(resources)) {
			for _, verb := range verbs {
				questions <- question{resource, verb}
			}
		}
	}()
	for range len(resources) * len(verbs) {
		if text := <-wrong; text != "" {
			t.Error(text)
		}
		asked++
	}
	t.Logf("%d questions about %d resources, %d rights", asked, len(resources), len(allowed))
}

// TestWhatAnAttackerWouldTry sends some requests that an attacker would try with the credentials of the extension.
func TestWhatAnAttackerWouldTry(t *testing.T) {
	own := kubernetes.NewForConfigOrDie(own)
	ctx := t.Context()
	for name, try := range map[string]func() error{
		"list Secrets": func() error { _, err := own.CoreV1().Secrets("").List(ctx, metav1.ListOptions{}); return err },
		"watch Secrets": func() error {
			_, err := own.CoreV1().Secrets("default").Watch(ctx, metav1.ListOptions{})
			return err
		},
		"create a Secret": func() error {
			_, err := own.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "x"}},
				metav1.CreateOptions{})
			return err
		},
		"read a ConfigMap": func() error {
			_, err := own.CoreV1().ConfigMaps("kube-system").Get(ctx, "x", metav1.GetOptions{})
			return err
		},
		"run a Pod": func() error {
			_, err := own.CoreV1().Pods("default").Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x"}},
				metav1.CreateOptions{})
			return err
		},
		"read a ServiceAccount": func() error {
			_, err := own.CoreV1().ServiceAccounts("kube-system").Get(ctx, "default", metav1.GetOptions{})
			return err
		},
		"delete Events": func() error {
			return own.CoreV1().Events("default").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		},
		"list roles": func() error { _, err := own.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{}); return err },
		"delete a Cluster": func() error {
			return own.RESTClient().Delete().AbsPath("/apis/cluster.x-k8s.io/v1beta2/namespaces/default/clusters/x").
				Do(ctx).Error()
		},
		"delete a host": func() error {
			return own.RESTClient().Delete().
				AbsPath("/apis/infrastructure.capstan.dev/v1beta2/namespaces/default/capstanhosts/x").Do(ctx).Error()
		},
		"delete its ExtensionConfig": func() error {
			return own.RESTClient().Delete().AbsPath("/apis/runtime.cluster.x-k8s.io/v1beta2/extensionconfigs/capstan").
				Do(ctx).Error()
		},
	} {
		if err := try(); !apierrors.IsForbidden(err) {
			t.Errorf("%s: error is %v, want forbidden", name, err)
		}
	}
}
