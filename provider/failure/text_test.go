package failure

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestText(t *testing.T) {
	for name, c := range map[string]struct{ err, want string }{
		"an ordinary error": {
			`reading Secret a/b: secrets "b" is forbidden: User "capstan" cannot get resource "secrets"`,
			`reading Secret a/b: secrets "b" is forbidden: User "capstan" cannot get resource "secrets"`,
		},
		"many lines become one":    {"first\n\tsecond\r\n  third", "first second third"},
		"a text that is not UTF-8": {"bad \xff byte", "bad ? byte"},
		"a bearer token": {
			"401: Authorization: Bearer abcdefgh12345678 refused",
			"401: Authorization: [removed] refused",
		},
		"a JSON web token": {"got eyJhbGciOiJSUzI1.eyJpc3MiOi.c2ln-X_ here", "got [removed] here"},
		"a token of kubeadm": {
			"kubeadm join with abcdef.0123456789abcdef failed",
			"kubeadm join with [removed] failed",
		},
		"a password": {
			`password="hunter2" is wrong, token: s3cret too`,
			`[removed]" is wrong, [removed] too`,
		},
		"a URL with a password": {"dial https://me:hunter2@example.com/x", "dial https[removed]example.com/x"},
		"a private key": {
			"bad key -----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- here",
			"bad key [removed] here",
		},
		"a private key without an end": {"bad key -----BEGIN PRIVATE KEY-----\nMIIE", "bad key [removed]"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Text(errors.New(c.err)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
	for shift := range 4 {
		long := strings.Repeat("x", shift) + strings.Repeat("€", maxText)
		if got := Text(errors.New(long)); len(got) > maxText || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
			t.Errorf("%d bytes, %q", len(got), got[len(got)-8:])
		}
	}
}

func TestAlike(t *testing.T) {
	for name, c := range map[string]struct {
		a, b string
		want bool
	}{
		"the same": {"reading x", "reading x", true},
		"another port": {
			"read tcp 10.0.0.1:54321->10.0.0.9:6443: reset", "read tcp 10.0.0.1:54399->10.0.0.9:6443: reset",
			true,
		},
		"another uid":      {"uid 0f3c-77aa-1b is gone", "uid 9b21-00ff-2c is gone", true},
		"another duration": {"no answer in 1.204s", "no answer in 998.1ms", true},
		"another word":     {"reading Secret", "reading Lease", false},
		"more words":       {"reading Secret", "reading Secret failed", false},
		"another name":     {"host-a is gone", "host-b is gone", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := alike(&metav1.Condition{Message: c.a}, &metav1.Condition{Message: c.b}); got != c.want {
				t.Errorf("%q and %q are alike: %t", c.a, c.b, got)
			}
		})
	}
	if alike(&metav1.Condition{Reason: "A"}, &metav1.Condition{Reason: "B"}) {
		t.Error("conditions with different reasons are alike")
	}
}

func TestSame(t *testing.T) {
	has := &metav1.Condition{Reason: "EndpointFailed", Message: "reset at port 1234"}
	if got := Same(has, "EndpointFailed", "reset at port 99"); got != has.Message {
		t.Errorf("only the number differs, got %q", got)
	}
	if got := Same(has, "Other", "reset at port 99"); got != "reset at port 99" {
		t.Errorf("the reason differs, got %q", got)
	}
	if got := Same(nil, "EndpointFailed", "x"); got != "x" {
		t.Errorf("there is no condition, got %q", got)
	}
}
