#!/bin/sh
# Exports the kernels of models for sm_90, for PyTorch. Needs NVRTC, a C compiler and the command `tilewright`, and no GPU:
#
#     bench/gpu/models.sh FOLDER [NAME …]
#
# Then on a machine with a GPU and PyTorch: python3 FOLDER/models.py [NAME …]
set -e
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
command=${TILEWRIGHT:-$here/../../target/debug/tilewright}
wanted=" $* "
# The folder, the kernel, and its constants.
export_kernel() {
    folder=$1
    shift
    case "$wanted" in "  " | *" $folder "*) ;; *) return 0 ;; esac
    rm -rf "$out/$folder"
    mkdir -p "$out/$folder"
    "$command" export "$@" --arch sm_90 --python --out "$out/$folder"
    source="$out/$folder/$1.c"
    cc -O1 -fPIC -shared "$source" -o "$out/$folder/lib$1.so" -ldl
    # A module makes its library again if its source is newer.
    : >"$source"
    touch "$out/$folder/lib$1.so"
}
cp "$here/models.py" "$out"
for rows in 16 64 96 160; do
    export_kernel expert_tiles_$rows expert_tiles BM=$rows
    export_kernel experts_$rows experts T=bf16 BM=$rows
done
export_kernel gated_gemm gated_gemm T=bf16
export_kernel decode paged_attention T=bf16 G=4 D=128 P=64
export_kernel decode_16 paged_attention T=bf16 G=4 D=128 P=16 BN=16
export_kernel linear_q4 linear_q4 T=f16
export_kernel linear_q4_hopper linear_q4_hopper T=f16
for causal in 0 1; do
    export_kernel attention_forward$causal attention_forward T=bf16 HAS_SINKS=0 CAUSAL=$causal
    export_kernel attention_grad_keys$causal attention_grad_keys T=bf16 CAUSAL=$causal
    export_kernel attention_grad_queries$causal attention_grad_queries T=bf16 CAUSAL=$causal
done
export_kernel attention_delta attention_delta T=bf16
export_kernel cross_entropy cross_entropy T=bf16 I=i64
export_kernel cross_entropy_backward cross_entropy_backward T=bf16 I=i64
export_kernel cross_entropy_fused cross_entropy_fused T=bf16 I=i64
export_kernel add_rms_norm add_rms_norm T=bf16 X=bf16 HAS_RSTD=0
for kernel in rms_norm_with_rstd layer_norm rms_norm_backward layer_norm_backward rope gated gated_backward dropout; do
    export_kernel $kernel $kernel T=bf16
done
export_kernel sum_parts sum_parts T=bf16
export_kernel adamw adamw T=f32 G=bf16
export_kernel sample_top_p sample_top_p T=f32 HAS_TOP_K=0
export_kernel conv1d_causal conv1d_causal T=bf16
export_kernel selective_scan selective_scan T=bf16
