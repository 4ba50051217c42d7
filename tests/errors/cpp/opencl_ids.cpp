void prefetching_example(float* data, int N) {
    int gid = get_global_id(0);
    for (int i = gid; i < N; i += get_global_size(0)) {
        data[i] = data[i] * 2;
    }
}
