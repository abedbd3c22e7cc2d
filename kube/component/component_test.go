package component

import "testing"

func TestMatch(t *testing.T) {
	cases := map[string]struct {
		ref  string
		want Image
		ok   bool
	}{
		"a component from any registry": {"registry.example:5000/path/kube-apiserver:v1.36.3",
			Image{"kube-apiserver", "v1.36.3"}, true},
		"etcd's tag is not Kubernetes'": {"registry.example/etcd:3.6.8-0", Image{"etcd", "3.6.8-0"}, true},
		"a bare name":                   {"kube-scheduler", Image{"kube-scheduler", ""}, true},
		"a digest is not a tag": {"r.example/kube-scheduler:v1.36.3@sha256:00ff",
			Image{"kube-scheduler", "v1.36.3"}, true},
		"a digest without a tag": {"r.example/kube-scheduler@sha256:00ff",
			Image{"kube-scheduler", ""}, true},
		"a registry's port is not a tag":               {"r.example:5000/etcd", Image{"etcd", ""}, true},
		"a component's name as a directory is ignored": {"r.example/etcd/backup:v1", Image{}, false},
		"a longer name is another image":               {"r.example/kube-apiserver-proxy:v1", Image{}, false},
		"kube-proxy is hollow":                         {"r.example/kube-proxy:v1.36.3", Image{}, false},
		"an empty reference":                           {"", Image{}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, ok := Match(c.ref)
			if got != c.want || ok != c.ok {
				t.Errorf("Match(%q) = %v, %v; want %v, %v", c.ref, got, ok, c.want, c.ok)
			}
		})
	}
}

func TestRuns(t *testing.T) {
	cases := map[string]struct {
		ref         string
		annotations map[string]string
		want        bool
	}{
		"a component from a manifest on the host": {"r.example/etcd:3.6.8-0",
			map[string]string{SourceAnnotation: "file"}, true},
		"a component deployed through the API": {"r.example/etcd:3.6.8-0",
			map[string]string{SourceAnnotation: "api"}, false},
		"another image from a manifest": {"r.example/kube-vip:v1",
			map[string]string{SourceAnnotation: "file"}, false},
		"a pod from an unknown source": {"r.example/etcd:3.6.8-0", nil, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if _, got := Runs(c.ref, c.annotations); got != c.want {
				t.Errorf("Runs(%q, %v) = %v, want %v", c.ref, c.annotations, got, c.want)
			}
		})
	}
}

func TestAddOn(t *testing.T) {
	cases := map[string]struct {
		ref  string
		want Image
		ok   bool
	}{
		"as kubeadm writes it":            {"registry.k8s.io/coredns/coredns:v1.14.2", Image{CoreDNS, "v1.14.2"}, true},
		"from a mirror":                   {"mirror.example:5000/coredns:v1.14.2", Image{CoreDNS, "v1.14.2"}, true},
		"kube-proxy":                      {"registry.k8s.io/kube-proxy:v1.36.3", Image{KubeProxy, "v1.36.3"}, true},
		"pause":                           {"registry.k8s.io/pause:3.10.2", Image{Pause, "3.10.2"}, true},
		"without a tag":                   {"registry.k8s.io/pause", Image{}, false},
		"by digest":                       {"registry.k8s.io/pause:3.10.2@sha256:00ff", Image{}, false},
		"an add-on's name as a directory": {"registry.k8s.io/coredns/backup:v1.14.2", Image{}, false},
		"a component":                     {"registry.k8s.io/etcd:3.6.8-0", Image{}, false},
		"a component without a registry":  {"kube-apiserver:v1.36.3", Image{}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got, ok := AddOn(c.ref); got != c.want || ok != c.ok {
				t.Errorf("AddOn(%q) = %v, %t; want %v, %t", c.ref, got, ok, c.want, c.ok)
			}
		})
	}
}

func TestBundled(t *testing.T) {
	for ref, want := range map[string]bool{
		"registry.k8s.io/kube-apiserver:v1.36.3":         true,
		"registry.k8s.io/pause:3.10.1":                   true,
		"mirror.example/k8s/coredns/coredns:v1.12.1":     true,
		"mirror.example:5000/kube-proxy@sha256:11223344": true,
		"registry.k8s.io/pause/other:1":                  false,
		"nginx":                                          false,
	} {
		if got := Bundled(ref); got != want {
			t.Errorf("%s: %t, want %t", ref, got, want)
		}
	}
}
