package kubelet

import (
	"context"
	"fmt"
	"runtime"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/version"
	"k8s.io/component-helpers/apimachinery/lease"
	"k8s.io/utils/clock"
)

const (
	address       = "127.0.0.1"
	leaseSeconds  = 40
	renewInterval = 10 * time.Second
)

// register creates the Node and its status: two calls, as the API server drops
// the status of an object that is being created.
func register(ctx context.Context, client kubernetes.Interface, port int32) error {
	nodes := client.CoreV1().Nodes()
	node, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: NodeName,
		Labels: map[string]string{
			corev1.LabelHostname:   NodeName,
			corev1.LabelOSStable:   runtime.GOOS,
			corev1.LabelArchStable: runtime.GOARCH,
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create the node %s: %w", NodeName, err)
	}
	// Admission taints a new node as not ready; the controller manager, which
	// would lift the taint, need not be there.
	node.Spec.Taints = nil
	if node, err = nodes.Update(ctx, node, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("lift the taint of the node %s: %w", NodeName, err)
	}
	node.Status = nodeStatus(port, metav1.Now())
	if _, err := nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("report the status of the node %s: %w", NodeName, err)
	}
	return nil
}

func nodeStatus(port int32, now metav1.Time) corev1.NodeStatus {
	resources := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("64"),
		corev1.ResourceMemory:           resource.MustParse("256Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
		corev1.ResourcePods:             resource.MustParse("1000"),
	}
	return corev1.NodeStatus{
		Capacity:    resources,
		Allocatable: resources,
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: address},
			{Type: corev1.NodeHostName, Address: NodeName},
		},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: port}},
		Conditions: []corev1.NodeCondition{{
			Type:               corev1.NodeReady,
			Status:             corev1.ConditionTrue,
			Reason:             "KubeletReady",
			Message:            "the stand-in is running",
			LastHeartbeatTime:  now,
			LastTransitionTime: now,
		}},
		NodeInfo: corev1.NodeSystemInfo{
			OperatingSystem:         runtime.GOOS,
			Architecture:            runtime.GOARCH,
			OSImage:                 "testcluster",
			ContainerRuntimeVersion: "testcluster://1",
			KubeletVersion:          version.Get().GitVersion,
		},
	}
}

// heartbeat renews the node's lease, by which the controller manager judges
// whether the node is alive.
func heartbeat(ctx context.Context, client kubernetes.Interface) {
	controller := lease.NewController(clock.RealClock{}, client, NodeName, leaseSeconds, nil, renewInterval, NodeName, corev1.NamespaceNodeLease, nil)
	controller.Run(ctx)
}
