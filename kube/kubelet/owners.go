package kubelet

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/volume"
	"k8s.io/kubernetes/pkg/volume/projected"
)

// On a host with one id all files belong to it, and so do those of volumes: each container sees them as its own,
// because its user is that id by another number. Nobody else is there to give files to, so the kubelet must not try.

// withoutOwners returns the pod as a kubelet with one id shall see it: volumes belong to no group. The group stays one
// that the containers ask for, so that the CRI server says that they don't have it.
func withoutOwners(pod *v1.Pod, source string) *v1.Pod {
	pod = hastenComponents(pod, source)
	if sc := pod.Spec.SecurityContext; sc != nil && sc.FSGroup != nil {
		if !slices.Contains(sc.SupplementalGroups, *sc.FSGroup) {
			sc.SupplementalGroups = append(sc.SupplementalGroups, *sc.FSGroup)
		}
		sc.FSGroup, sc.FSGroupChangePolicy = nil, nil
	}
	return pod
}

// pluginsWithoutOwners returns plugins of volumes that give no file to a container's user. Only projected volumes do,
// as they hold tokens.
func pluginsWithoutOwners(plugins []volume.VolumePlugin) []volume.VolumePlugin {
	name := projected.ProbeVolumePlugins()[0].GetPluginName()
	changed := slices.Clone(plugins)
	for i, plugin := range changed {
		if plugin.GetPluginName() == name {
			changed[i] = withoutOwnersPlugin{plugin}
		}
	}
	return changed
}

type withoutOwnersPlugin struct{ volume.VolumePlugin }

// NewMounter returns the plugin's, which is given no owners.
func (p withoutOwnersPlugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	mounter, err := p.VolumePlugin.NewMounter(spec, pod)
	if err != nil {
		return nil, err
	}
	return withoutOwnersMounter{mounter}, nil
}

type withoutOwnersMounter struct{ volume.Mounter }

// SetUp makes the volume.
func (m withoutOwnersMounter) SetUp(args volume.MounterArgs) error {
	args.FsUser, args.FsGroup = nil, nil
	return m.Mounter.SetUp(args)
}

// SetUpAt makes the volume in a directory.
func (m withoutOwnersMounter) SetUpAt(dir string, args volume.MounterArgs) error {
	args.FsUser, args.FsGroup = nil, nil
	return m.Mounter.SetUpAt(dir, args)
}
