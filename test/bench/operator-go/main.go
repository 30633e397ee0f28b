// A small but well-made controller for TranscodeJobs on controller-runtime: the yardstick of the operator's figures. It
// makes the same Job and writes the same number of statuses; it knows no pods, no progress and no failures.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

var group = schema.GroupVersion{Group: "media.keepsake.dev", Version: "v1alpha1"}

// Input is one thing to convert.
type Input struct {
	ID           string `json:"id"`
	Type         string `json:"type"`
	SourceKey    string `json:"sourceKey"`
	OutputPrefix string `json:"outputPrefix"`
}

// Spec holds what the Job is made of.
type Spec struct {
	Inputs                 []Input  `json:"inputs"`
	Renditions             []string `json:"renditions,omitempty"`
	SegmentSeconds         int      `json:"segmentSeconds,omitempty"`
	Accelerator            string   `json:"accelerator,omitempty"`
	Priority               string   `json:"priority,omitempty"`
	Suspend                bool     `json:"suspend,omitempty"`
	AttemptDeadlineSeconds int64    `json:"attemptDeadlineSeconds,omitempty"`
	MaxAttempts            int32    `json:"maxAttempts,omitempty"`
}

// Status is what people see.
type Status struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Phase              string             `json:"phase,omitempty"`
	JobName            string             `json:"jobName,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
	StartTime          *metav1.Time       `json:"startTime,omitempty"`
	CompletionTime     *metav1.Time       `json:"completionTime,omitempty"`
}

// TranscodeJob is the custom resource.
type TranscodeJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status,omitempty"`
}

// DeepCopyObject copies all that may be changed.
func (in *TranscodeJob) DeepCopyObject() runtime.Object {
	out := *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Inputs = append([]Input(nil), in.Spec.Inputs...)
	out.Spec.Renditions = append([]string(nil), in.Spec.Renditions...)
	out.Status.Conditions = append([]metav1.Condition(nil), in.Status.Conditions...)
	return &out
}

// TranscodeJobList is a list of them.
type TranscodeJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []TranscodeJob `json:"items"`
}

// DeepCopyObject copies every item.
func (in *TranscodeJobList) DeepCopyObject() runtime.Object {
	out := &TranscodeJobList{TypeMeta: in.TypeMeta, ListMeta: in.ListMeta}
	for i := range in.Items {
		out.Items = append(out.Items, *in.Items[i].DeepCopyObject().(*TranscodeJob))
	}
	return out
}

type reconciler struct{ client.Client }

func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var cr TranscodeJob
	if err := r.Get(ctx, req.NamespacedName, &cr); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if c := cr.Status.Conditions; len(c) > 0 && c[0].Status != metav1.ConditionUnknown {
		return ctrl.Result{}, nil
	}
	name := childName(&cr)
	var job batchv1.Job
	err := r.Get(ctx, client.ObjectKey{Namespace: cr.Namespace, Name: name}, &job)
	if apierrors.IsNotFound(err) {
		if err := r.Create(ctx, childJob(&cr, name)); err != nil && !apierrors.IsAlreadyExists(err) {
			return ctrl.Result{}, err
		}
	} else if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.writeStatus(ctx, &cr, &job, name)
}

func (r *reconciler) writeStatus(ctx context.Context, cr *TranscodeJob, job *batchv1.Job, name string) error {
	phase, status, reason := "Running", metav1.ConditionUnknown, "Running"
	for _, c := range job.Status.Conditions {
		if c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue {
			phase, status, reason = "Succeeded", metav1.ConditionTrue, "Succeeded"
		}
	}
	if cr.Status.Phase == phase {
		return nil
	}
	before := cr.DeepCopyObject().(*TranscodeJob)
	condition := metav1.Condition{
		Type: "Succeeded", Status: status, Reason: reason, Message: "The Job is " + reason,
		ObservedGeneration: cr.Generation, LastTransitionTime: metav1.NewTime(time.Now()),
	}
	cr.Status = Status{
		ObservedGeneration: cr.Generation, Phase: phase, JobName: name, Conditions: []metav1.Condition{condition},
		StartTime: job.Status.StartTime, CompletionTime: job.Status.CompletionTime,
	}
	return client.IgnoreNotFound(r.Status().Patch(ctx, cr, client.MergeFrom(before)))
}

func childName(cr *TranscodeJob) string {
	sum := sha256.Sum256([]byte(string(cr.UID) + "/1"))
	return "tj-" + cr.Name + "-" + hex.EncodeToString(sum[:])[:8]
}

func ptr[T any](v T) *T { return &v }

func childJob(cr *TranscodeJob, name string) *batchv1.Job {
	labels := map[string]string{
		"app.kubernetes.io/name": "keepsake", "app.kubernetes.io/component": "transcode",
		"app.kubernetes.io/managed-by": "keepsake-operator",
		group.Group + "/owner-uid":     string(cr.UID), group.Group + "/priority": cr.Spec.Priority,
	}
	annotations := map[string]string{group.Group + "/transcode-job": cr.Name}
	spec, _ := json.Marshal(cr.Spec)
	memory, scratch := resource.MustParse("2Gi"), resource.MustParse("20Gi")
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: cr.Namespace, Labels: labels, Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cr, group.WithKind("TranscodeJob"))},
		},
		Spec: batchv1.JobSpec{
			Parallelism: ptr(int32(1)), Completions: ptr(int32(1)), BackoffLimit: ptr(int32(2)), Suspend: ptr(cr.Spec.Suspend),
			PodReplacementPolicy: ptr(batchv1.Failed),
			PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
				{Action: batchv1.PodFailurePolicyActionIgnore, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
					{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue},
				}},
				{Action: batchv1.PodFailurePolicyActionFailJob, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
					ContainerName: ptr("media"), Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{10, 11, 12, 13},
				}},
			}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: annotations},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, ActiveDeadlineSeconds: ptr(cr.Spec.AttemptDeadlineSeconds),
					TerminationGracePeriodSeconds: ptr(int64(30)), AutomountServiceAccountToken: ptr(false), EnableServiceLinks: ptr(false),
					SecurityContext: &corev1.PodSecurityContext{
						RunAsNonRoot: ptr(true), RunAsUser: ptr(int64(10001)), RunAsGroup: ptr(int64(10001)), FSGroup: ptr(int64(10001)),
						SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					},
					Containers: []corev1.Container{{
						Name: "media", Image: "localhost/keepsake:dev", Command: []string{"node", "jobs/transcode/main.js"},
						Env: []corev1.EnvVar{
							{Name: "JOB_SPEC", Value: string(spec)},
							{Name: "PROGRESS_URL", Value: "http://127.0.0.1:8090/progress"},
							{Name: "PROGRESS_TOKEN", Value: hex.EncodeToString(make([]byte, 120))},
							{Name: "LOG_LEVEL", Value: "info"}, {Name: "WORK_FOLDER", Value: "/work"},
						},
						EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{
							LocalObjectReference: corev1.LocalObjectReference{Name: "store"},
						}}},
						Resources: corev1.ResourceRequirements{
							Requests: corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": memory, "ephemeral-storage": scratch},
							Limits:   corev1.ResourceList{"memory": memory, "ephemeral-storage": scratch},
						},
						TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
						SecurityContext: &corev1.SecurityContext{
							AllowPrivilegeEscalation: ptr(false), ReadOnlyRootFilesystem: ptr(true),
							Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
						},
						VolumeMounts: []corev1.VolumeMount{{Name: "work", MountPath: "/work"}, {Name: "tmp", MountPath: "/tmp"}},
					}},
					Volumes: []corev1.Volume{
						{Name: "work", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &scratch}}},
						{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: ptr(resource.MustParse("256Mi"))}}},
					},
				},
			},
		},
	}
}

func must(err error) {
	if err != nil {
		println(err.Error())
		os.Exit(1)
	}
}

func main() {
	ctrl.SetLogger(zap.New())
	scheme := runtime.NewScheme()
	must(clientgoscheme.AddToScheme(scheme))
	scheme.AddKnownTypes(group, &TranscodeJob{}, &TranscodeJobList{})
	metav1.AddToGroupVersion(scheme, group)
	config := ctrl.GetConfigOrDie()
	config.QPS = -1 // the API server's own fairness is limit enough
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme,
		Cache: cache.Options{
			DefaultTransform:  cache.TransformStripManagedFields(),
			DefaultNamespaces: map[string]cache.Config{os.Getenv("WATCH_NAMESPACE"): {}},
		},
		Metrics:        server.Options{BindAddress: "127.0.0.1:" + os.Getenv("METRICS_PORT")},
		LeaderElection: true, LeaderElectionID: "bench-operator-go", LeaderElectionNamespace: "default",
		LeaderElectionReleaseOnCancel: true,
	})
	must(err)
	must(ctrl.NewControllerManagedBy(manager).For(&TranscodeJob{}).Owns(&batchv1.Job{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 8}).
		Complete(&reconciler{manager.GetClient()}))
	must(manager.Start(ctrl.SetupSignalHandler()))
}
