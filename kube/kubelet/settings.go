package kubelet

import (
	"maps"
	"os"
	"time"

	"k8s.io/kubernetes/cmd/kubelet/app/options"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/kube/mode"
)

// imagesHigh is how full, in percent, the disk of the image store must be before a host with real pods removes images;
// at imagesLow it stops. The disk belongs to the machine and holds more than images, so both values are higher than
// usual.
const imagesHigh, imagesLow = 90, 85

// fit overrides the settings that a host without cgroups, iptables and its own machine can't support; everything else
// stays as the user wrote it. It runs after flags and configuration file are read and before they are validated, so
// that configurations written by kubeadm need no change.
func fit(flags *options.KubeletFlags, config *kubeletconfig.KubeletConfiguration, of mode.Mode) {
	if flags.NodeLabels == nil {
		flags.NodeLabels = map[string]string{}
	}
	maps.Copy(flags.NodeLabels, of.Labels())

	// No cgroups.
	config.CgroupsPerQOS = false
	config.CgroupRoot = ""
	config.EnforceNodeAllocatable = nil
	config.KubeReservedCgroup = ""
	config.SystemReservedCgroup = ""
	config.SystemCgroups = ""
	config.KubeletCgroups = ""
	config.FailCgroupV1 = false
	config.SingleProcessOOMKill = nil
	config.MemorySwap = kubeletconfig.MemorySwapConfiguration{}

	// The kernel, its swap and its packet filter belong to the machine.
	config.FailSwapOn = false
	config.ProtectKernelDefaults = false
	config.MakeIPTablesUtilChains = false

	// The disk and the memory belong to the machine, too: what others use must not cause evictions on a host.
	config.EvictionHard = map[string]string{
		"memory.available":   "0%",
		"nodefs.available":   "0%",
		"nodefs.inodesFree":  "0%",
		"imagefs.available":  "0%",
		"imagefs.inodesFree": "0%",
	}
	config.EvictionSoft = nil
	config.EvictionSoftGracePeriod = nil
	config.EvictionMinimumReclaim = nil
	config.MergeDefaultEvictionSettings = false
	config.ImageGCHighThresholdPercent = 100
	config.ImageGCLowThresholdPercent = 99
	if !of.Hollow {
		// A full disk is a reason to remove images that no container uses. The image store keeps the images that the
		// machine's user loaded or another host uses.
		config.ImageGCHighThresholdPercent = imagesHigh
		config.ImageGCLowThresholdPercent = imagesLow
	}

	// The kubelet starts no pod while this file is missing. A machine without a network may lack it.
	if _, err := os.Stat(config.ResolverConfig); err != nil {
		config.ResolverConfig = ""
	}

	// Hollow pods pull nothing, so pulls need no order and no limit. The image store allows four at a time.
	config.SerializeImagePulls = false
	config.MaxParallelImagePulls = ptr.To[int32](10)
	if !of.Hollow {
		config.MaxParallelImagePulls = ptr.To[int32](4)
	}
	config.RegistryPullQPS = 0

	// A machine that shuts down does not notify its hosts.
	config.ShutdownGracePeriod.Duration = time.Duration(0)
	config.ShutdownGracePeriodCriticalPods.Duration = time.Duration(0)
	config.ShutdownGracePeriodByPodPriority = nil
}
