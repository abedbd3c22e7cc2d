package kubelet

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
	"k8s.io/kubernetes/pkg/volume"
	"k8s.io/kubernetes/pkg/volume/emptydir"
	"k8s.io/kubernetes/pkg/volume/projected"
	"k8s.io/utils/ptr"
)

func TestWithoutOwners(t *testing.T) {
	policy := v1.FSGroupChangeAlways
	for name, c := range map[string]struct{ in, want *v1.PodSecurityContext }{
		"no security context": {nil, nil},
		"an fsGroup": {
			&v1.PodSecurityContext{RunAsUser: ptr.To[int64](5), FSGroup: ptr.To[int64](7), FSGroupChangePolicy: &policy},
			&v1.PodSecurityContext{RunAsUser: ptr.To[int64](5), SupplementalGroups: []int64{7}},
		},
		"an fsGroup that is also a supplemental group": {
			&v1.PodSecurityContext{FSGroup: ptr.To[int64](7), SupplementalGroups: []int64{6, 7}},
			&v1.PodSecurityContext{SupplementalGroups: []int64{6, 7}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}, Spec: v1.PodSpec{SecurityContext: c.in}}
			before := in.DeepCopy()
			got := withoutOwners(in, kubetypes.ApiserverSource)
			if diff := cmp.Diff(c.want, got.Spec.SecurityContext); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, in); diff != "" {
				t.Errorf("the given pod was changed:\n%s", diff)
			}
		})
	}
}

// setUp is a plugin whose mounter records its arguments.
type setUp struct {
	volume.VolumePlugin
	volume.Mounter
	given *volume.MounterArgs
}

func (s setUp) NewMounter(*volume.Spec, *v1.Pod) (volume.Mounter, error) { return s, nil }
func (s setUp) SetUp(args volume.MounterArgs) error                      { *s.given = args; return nil }
func (s setUp) SetUpAt(_ string, args volume.MounterArgs) error          { *s.given = args; return nil }

func TestPluginsWithoutOwners(t *testing.T) {
	for name, c := range map[string]struct {
		plugin volume.VolumePlugin
		kept   bool
	}{
		"projected volumes get no owner": {projected.ProbeVolumePlugins()[0], false},
		"other volumes keep their owner": {emptydir.ProbeVolumePlugins()[0], true},
	} {
		t.Run(name, func(t *testing.T) {
			args := volume.MounterArgs{FsUser: ptr.To[int64](5), FsGroup: ptr.To[int64](7)}
			given := volume.MounterArgs{}
			plugins := pluginsWithoutOwners([]volume.VolumePlugin{setUp{VolumePlugin: c.plugin, given: &given}})
			mounter, err := plugins[0].NewMounter(nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, try := range []func() error{
				func() error { return mounter.SetUp(args) }, func() error { return mounter.SetUpAt("/dir", args) },
			} {
				given = args
				if err := try(); err != nil || (given.FsUser != nil) != c.kept || (given.FsGroup != nil) != c.kept {
					t.Errorf("the mounter got %+v, %v", given, err)
				}
			}
		})
	}
}
