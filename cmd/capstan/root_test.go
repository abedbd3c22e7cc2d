package main

import "testing"

func TestInNamespace(t *testing.T) {
	for line, want := range map[string]string{
		"capstan cluster describe demo":                    "capstan -n blue cluster describe demo",
		"capstan host list":                                "capstan -n blue host list",
		"capstan hook timeline demo":                       "capstan -n blue hook timeline demo",
		"capstan backup list demo":                         "capstan -n blue backup list demo",
		"capstan kubectl --cluster demo get nodes":         "capstan kubectl --cluster blue/demo get nodes",
		"capstan kubectl delete capstanhost a   # if gone": "capstan kubectl -n blue delete capstanhost a   # if gone",
		"capstan down --delete   remove everything":        "capstan down --delete   remove everything",
		"export KUBECONFIG=x":                              "export KUBECONFIG=x",
	} {
		if got := inNamespace(line, "blue"); got != want {
			t.Errorf("%q becomes %q, want %q", line, got, want)
		}
		for _, same := range []string{"", defaultNamespace} {
			if got := inNamespace(line, same); got != line {
				t.Errorf("in namespace %q, the line %q becomes %q", same, line, got)
			}
		}
	}
}
